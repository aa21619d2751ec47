"""Stores on loopback that fail as they are told: a web server of files, an S3, and a file system within the process."""

from __future__ import annotations

import contextlib
import io
import re
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar

from fsspec import AbstractFileSystem

_RANGE = re.compile(r"bytes=(\d+)-(\d*)")
CUT = -1  # in place of a status: half of the body, then the connection ends
FINE = 0  # no fault for once


@dataclass
class Files:
    """A web server's files. The next requests for a path get its `faults` (a status, or CUT), those after them the file.

    A path in `always` gets that status each time. `ranges=False` serves whole files only.
    """

    content: dict[str, bytes] = field(default_factory=dict)
    faults: dict[str, list[int]] = field(default_factory=dict)
    always: dict[str, int] = field(default_factory=dict)
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    root: str = ""
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)  # method, path, Range

    def put(self, path: str, content: bytes) -> str:
        """The url of a new file."""
        self.content[path] = content
        return self.root + path

    def fault(self, method: str, path: str) -> int | None:
        """A connection is cut in the body, which a HEAD has not."""
        if path in self.always:
            return self.always[path]
        faults = self.faults.get(path)
        fault = None if not faults or (faults[0] == CUT and method == "HEAD") else faults.pop(0)
        return None if fault == FINE else fault


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    files: ClassVar[Files]

    def do_GET(self) -> None:
        with contextlib.suppress(OSError):
            self._answer()

    do_HEAD = do_GET  # noqa: N815

    def _answer(self) -> None:
        path, files = self.path.partition("?")[0], self.files
        asked = self.headers.get("Range")
        files.requests.append((self.command, path, asked))
        fault = files.fault(self.command, path)
        if (status := fault if fault not in (None, CUT) else None if path in files.content else 404) is not None:
            self._send(status, b"", {})
            return
        body, status, headers = files.content[path], 200, dict(files.headers)
        if files.ranges and asked and (span := _RANGE.fullmatch(asked)):
            first, last = int(span[1]), min(int(span[2] or len(body)), len(body) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(body)}"
            body, status = body[first : last + 1], 206
        self._send(status, body, headers, len(body) // 2 if fault == CUT else None)

    def _send(self, status: int, body: bytes, headers: dict[str, str], upto: int | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            if value:
                self.send_header(name, value)
        if "Content-Length" in headers:  # unknown to the client: the body ends with the connection
            self.send_header("Connection", "close")
            self.close_connection = True
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[:upto])
        if upto is not None:
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        pass


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextlib.contextmanager
def web() -> Iterator[Files]:
    """A running web server."""
    files = Files()
    server = _Quiet(("127.0.0.1", 0), type("Handler", (_Handler,), {"files": files}))
    files.root = f"http://127.0.0.1:{server.server_address[1]}"
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
    try:
        yield files
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class S3:
    """`faults`: (method, end of the path) → (status, error code) that the next such requests get."""

    url: str = ""
    faults: dict[tuple[str, str], list[tuple[int, str]]] = field(default_factory=dict)
    requests: list[tuple[str, str]] = field(default_factory=list)

    def fault(self, method: str, path: str) -> tuple[int, str] | None:
        self.requests.append((method, path))
        fitting = (left for (m, end), left in self.faults.items() if left and m == method and path.endswith(end))
        return next((left.pop(0) for left in fitting), None)


@contextlib.contextmanager
def s3() -> Iterator[S3]:
    """A running S3 (moto's)."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Quiet(WSGIRequestHandler):
        def log_request(self, *_: Any) -> None:
            pass

    script, moto = S3(), DomainDispatcherApplication(create_backend_app)

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        fault = script.fault(environ["REQUEST_METHOD"], environ["PATH_INFO"])
        if fault is None:
            return moto(environ, start_response)  # type: ignore[no-any-return]
        status, code = fault
        start_response(f"{status} Fault", [("Content-Type", "application/xml")])
        if environ["REQUEST_METHOD"] == "HEAD":
            return []
        return [f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()]

    server = make_server("127.0.0.1", 0, application, threaded=True, request_handler=Quiet)
    script.url = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()


class Throttled(AbstractFileSystem):  # type: ignore[misc]
    """`throttled://`: files in `content`; the next `errors[what, path]` are raised when that is done to that path.

    `what` is info, ls, open, mv, or of an open file behind its first 10 bytes: read, and end, which raises nothing.
    """

    protocol = "throttled"
    cachable = False
    content: ClassVar[dict[str, bytes]] = {}
    errors: ClassVar[dict[tuple[str, str], list[BaseException]]] = {}

    @classmethod
    def trouble(cls, what: str, path: str) -> None:
        if left := cls.errors.get((what, path)):
            raise left.pop(0)

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        path = self._strip_protocol(path)
        self.trouble("info", path)
        if path in self.content:
            return {"name": path, "type": "file", "size": len(self.content[path])}
        if any(name.startswith(path + "/") for name in self.content):
            return {"name": path, "type": "directory", "size": 0}
        raise FileNotFoundError(path)

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        path = self._strip_protocol(path)
        self.trouble("ls", path)
        below = {"/".join(n.split("/")[: path.count("/") + 2]) for n in self.content if n.startswith(path + "/")}
        entries = [{"name": n, "type": "file" if n in self.content else "directory", "size": 0} for n in sorted(below)]
        return entries if detail else [entry["name"] for entry in entries]

    def _open(self, path: str, mode: str = "rb", **_: Any) -> Any:
        self.trouble("open", path)
        return _Troubled(path, self.content[path]) if mode == "rb" else _Kept(self.content, path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        pass

    def mv(self, path1: str, path2: str, **_: Any) -> None:
        if path1 not in self.content:
            raise FileNotFoundError(path1)
        moved = self.content.pop(path1)
        self.content[path2] = moved
        self.trouble("mv", path2)

    def rm_file(self, path: str) -> None:
        del self.content[path]


class _Troubled(io.BytesIO):
    def __init__(self, path: str, content: bytes) -> None:
        super().__init__(content)
        self.path, self.size = path, len(content)

    def read(self, n: int | None = -1) -> bytes:
        if self.tell() >= 10:
            Throttled.trouble("read", self.path)
            if (ends := Throttled.errors.get(("end", self.path))) and ends.pop():
                return b""
        return super().read(min(10, self.size) if n is None or n < 0 or n > 10 else n)


class _Kept(io.BytesIO):
    def __init__(self, content: dict[str, bytes], path: str) -> None:
        super().__init__()
        self.content, self.path = content, path

    def close(self) -> None:
        if not self.closed:
            self.content[self.path] = self.getvalue()
        super().close()
