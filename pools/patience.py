"""Patience with stores that throttle or drop connections: what may heal is tried again, after waits that grow."""

from __future__ import annotations

import errno
import io
import time
from collections.abc import Callable
from typing import TypeVar

from pools.errors import Retry, WinnowError, WorkFailed

T = TypeVar("T")
WAITS = (1, 2, 4, 8, 16)  # seconds between tries
TRIES = len(WAITS) + 1
_HEALING_STATUS = (408, 425, 429)  # besides all of the server's own
# Of S3; some of them come with status 400.
_HEALING_CODES = (
    *("RequestLimitExceeded", "RequestTimeout", "RequestTimeoutException", "ServiceUnavailable"),
    *("SlowDown", "Throttling", "ThrottlingException"),
)
_LASTING = (
    *(FileNotFoundError, FileExistsError, PermissionError, IsADirectoryError, NotADirectoryError),
    io.UnsupportedOperation,
)
_LASTING_NUMBERS = (errno.EINVAL, errno.EPERM, errno.ENOSYS, errno.ENAMETOOLONG)
# (package, class) of what is no OSError; by name, so that none of the packages need be there.
_CONNECTION_ERRORS = {
    ("aiohttp", "ClientError"),
    ("botocore", "ConnectionError"),
    ("botocore", "HTTPClientError"),
    ("botocore", "IncompleteReadError"),
    ("http", "HTTPException"),
}
_sleep = time.sleep


def patiently(act: Callable[[], T], where: str) -> T:
    """What `act` gives; where it fails in a way that may heal, it is tried again after each of `WAITS`.

    Raises WorkFailed, which names `where` and the last error, once all tries have failed; PermissionError if the store
    refuses; whatever else `act` raises as it is.
    """
    waits = iter(WAITS)
    while True:
        try:
            return act()
        except Exception as e:
            if not may_heal(e):
                refusal = _refusal(e, where)
                if refusal is None:
                    raise
                raise refusal from e
            if (wait := next(waits, None)) is None:
                raise WorkFailed(f"{where}: gave up after {TRIES} tries: {_told(e)}") from e
        _sleep(wait)


def may_heal(error: BaseException) -> bool:
    """Whether the same might go well a little later: throttling, a server's own failure, a lost connection."""
    error = _behind(error)
    status, code = _answer(error)
    if code in _HEALING_CODES:
        return True
    if status is not None:
        return status >= 500 or status in _HEALING_STATUS
    if isinstance(error, WinnowError):
        return isinstance(error, Retry)
    if isinstance(error, OSError):
        return not isinstance(error, _LASTING) and error.errno not in _LASTING_NUMBERS
    return bool(_names(error) & _CONNECTION_ERRORS) and not isinstance(error, ValueError)


def _refusal(error: BaseException, where: str) -> Exception | None:
    """What to raise in place of an error that lasts and does not say where; None if it is to be raised itself."""
    status, _ = _answer(_behind(error))
    if status in (401, 403) or isinstance(error, PermissionError) or ("botocore", "NoCredentialsError") in _names(error):
        return PermissionError(errno.EACCES, f"the store refuses it ({_told(error)})", where)
    return None if status in (None, 404, 410) else WorkFailed(f"{where}: {_told(error)}")


def _behind(error: BaseException) -> BaseException:
    """The error itself, or what fsspec made a missing file of: over http, all failures to look at one."""
    return error.__cause__ if isinstance(error, FileNotFoundError) and error.__cause__ is not None else error


def _told(error: BaseException) -> str:
    error = _behind(error)
    return f"{type(error).__name__}: {error}"


def _answer(error: BaseException) -> tuple[int | None, str | None]:
    """HTTP status, and error code of S3, where the error or its cause is a server's answer."""
    for e in (error, error.__cause__):
        status, response = getattr(e, "status", None), getattr(e, "response", None)
        if isinstance(status, int):
            return status, None
        if isinstance(response, dict):
            return response.get("ResponseMetadata", {}).get("HTTPStatusCode"), response.get("Error", {}).get("Code")
    return None, None


def _names(error: BaseException) -> set[tuple[str, str]]:
    return {(c.__module__.partition(".")[0], c.__name__) for c in type(error).__mro__}
