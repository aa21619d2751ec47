"""How long to leave a host alone before it is asked again."""

from __future__ import annotations

import contextlib
import time
import zlib
from datetime import UTC
from email.utils import parsedate_to_datetime

_SPREAD = 0.5  # of a wait, at most this share is added


def before_retry(url: str, attempt: int, first: float, asked: float = 0.0) -> float:
    """Seconds before the retry after try `attempt` (from 0): doubled each time, not less than what the server asked for.

    A share that depends on url and attempt alone is added, so that urls which failed together do not come back together.
    """
    share = zlib.crc32(f"{attempt} {url}".encode()) / (1 << 32)
    return max(first * 2.0**attempt, asked) + first * 2.0**attempt * _SPREAD * share


def retry_after(value: str) -> float:
    """Seconds from now that a Retry-After states, as a number or an HTTP date; 0 if it states none."""
    value = value.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    with contextlib.suppress(ValueError, OverflowError):
        date = parsedate_to_datetime(value)
        return max((date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - time.time(), 0.0)
    return 0.0
