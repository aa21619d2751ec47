"""An HTTP forward proxy on loopback that answers from a lookup, and `winnow replay`: from archived responses.

Clients send it the whole address (`GET https://host/path HTTP/1.1`, also for https), so names are never resolved,
addresses stay what they were when the page was crawled, and nothing outside this machine is contacted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Protocol, Self

from pipeline.archive import Answer, Archive
from pools.errors import InputError, WinnowError

HOST = "127.0.0.1"
IDLE_SECONDS = 60  # after which an open connection without a request is closed
# Headers of the recorded connection that say nothing about this one (RFC 9110, section 7.6.1), and what is set here.
_NOT_FORWARDED = {
    *("connection", "keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authentication-info", "te", "trailer"),
    *("transfer-encoding", "upgrade", "content-length"),
}


class Lookup(Protocol):
    """Answers by url: a dict, an `Archive`, or whatever has this method. It is called by several threads at once."""

    def get(self, url: str, /) -> Answer | None: ...


class Proxy:
    """Serves a lookup while its block runs; `url` is the address to give to clients. Port 0 takes a free one.

    Unknown addresses get 404, CONNECT 405 (clients must forward https, not tunnel it), other methods than GET and HEAD
    501, and an answer that cannot be read 502; each says why in its body. Raises InputError if the port cannot be had.
    """

    def __init__(self, responses: Lookup, port: int = 0) -> None:
        if not 0 <= port < 1 << 16:
            raise InputError(f"port {port}", where="--port", expected="a number from 0 (any free port) to 65535")
        try:
            self._server = _Server((HOST, port), _Handler)
        except OSError as e:
            raise InputError(
                f"port {port} cannot be had: {e.strerror}", where="--port", fix="choose another, or 0 for any free one"
            ) from e
        self._server.responses = responses
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def replay(warcs: Sequence[str], *, port: int = 0, on_ready: Callable[[str, int], None] | None = None) -> None:
    """Serves the responses of WARC files until it is interrupted.

    `on_ready` is told the proxy's address and the number of urls; without it, a line on standard error says so. Problems
    of damaged files are named there as well. Raises InputError for a missing file, a file that is no WARC, a bad port.
    """
    archive = Archive(warcs)
    for problem in archive.problems:
        print(problem, file=sys.stderr)
    with Proxy(archive, port) as proxy:
        (on_ready or _announce)(proxy.url, len(archive.urls))
        # An event without a timeout would not see Ctrl-C on every platform.
        while not threading.Event().wait(3600):
            pass


def _announce(url: str, count: int) -> None:
    print(f"replaying {count} urls; use it with: winnow download … --proxy {url}", file=sys.stderr, flush=True)


class _Server(ThreadingHTTPServer):
    responses: Lookup
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        # A client that goes away is no error of ours.
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = IDLE_SECONDS
    wbufsize = -1
    disable_nagle_algorithm = True
    server: _Server

    def do_GET(self) -> None:
        if "content-length" in self.headers or "transfer-encoding" in self.headers:
            self.close_connection = True  # a body is not read, so the next request could not be found
        if not self.path.lower().startswith(("http://", "https://")):
            self._explain(400, f"This is a forward proxy: ask it for a whole address, http://host/path, not {self.path}")
            return
        try:
            answer = self.server.responses.get(self.path)
        except (WinnowError, OSError) as e:
            self._explain(502, f"The recorded response cannot be read: {e}")
            return
        if answer is None:
            self._explain(404, f"No response is recorded for {self.path}")
        elif not 200 <= answer[0] <= 999:
            self._explain(502, f"The recorded response has status {answer[0]}, which ends no request")
        else:
            self._send(*answer)

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_CONNECT(self) -> None:
        self.close_connection = True
        self._explain(
            405,
            f"This proxy opens no tunnel to {self.path}: it answers from recorded responses alone. Have the client forward "
            "https requests (GET https://host/path), as `winnow download --proxy` does.",
        )

    def _explain(self, status: int, why: str) -> None:
        headers = [("Content-Type", "text/plain; charset=utf-8")]
        if status == 405:
            headers.append(("Allow", "GET, HEAD"))
        self._send(status, headers, f"{why}\n".encode("utf-8", "replace"))

    def _send(self, status: int, headers: Sequence[tuple[str, str]], body: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            # Recorded headers are a stranger's: none may end its line early.
            if name.lower() not in _NOT_FORWARDED and not any(c in name + value for c in "\r\n\0"):
                self.send_header(name, value.encode("latin-1", "replace").decode("latin-1"))
        bodiless = status in (204, 304)
        if not bodiless:
            self.send_header("Content-Length", str(len(body)))
        if self.close_connection:
            self.send_header("Connection", "close")
        self.end_headers()
        if not bodiless and self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  (the base class's name)
        """No line a request: a download asks for thousands."""
