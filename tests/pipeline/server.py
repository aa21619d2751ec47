"""A scripted web server on loopback, which is also a forward proxy: it answers absolute urls of any host."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

Headers = Sequence[tuple[str, str]]


@dataclass(frozen=True)
class Answer:
    """One scripted answer. `drip`: seconds between single bytes; `endless`: the body again and again."""

    body: bytes = b""
    status: int = 200
    headers: Headers = ()
    delay: float = 0.0
    drip: float | None = None
    endless: bool = False
    cut: bool = False  # declares twice the length it sends
    reset: bool = False  # closes without a word
    raw: bytes | None = None  # sent as it stands in place of everything

    @classmethod
    def redirect(cls, to: str, status: int = 302) -> Answer:
        return cls(status=status, headers=(("Location", to),))


@dataclass
class Server:
    """`routes`: path or absolute url → answers, given one a request, the last one again and again."""

    routes: dict[str, list[Answer]] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)  # targets as they were asked for
    sent: int = 0  # bytes of bodies
    connections: int = 0
    headers: list[Message] = field(default_factory=list)  # of the requests, one after the other
    times: list[float] = field(default_factory=list)  # of the requests, monotonic seconds
    under_way: int = 0
    most_at_once: int = 0
    host: str = "127.0.0.1"
    port: int = 0

    @property
    def root(self) -> str:
        return f"http://{self.host}:{self.port}"

    def on(self, target: str, *answers: Answer) -> str:
        """Scripts a path (or absolute url) and returns the url to ask for."""
        self.routes[target] = list(answers)
        return target if "://" in target else self.root + target

    def count(self, target: str) -> int:
        return self.requests.count(target)

    def next(self, target: str) -> Answer:
        self.requests.append(target)
        answers = self.routes.get(target)
        if not answers:
            return Answer(b"nothing here", 404)
        return answers.pop(0) if len(answers) > 1 else answers[0]


@contextlib.contextmanager
def serve(wrap: Callable[[Any], Any] | None = None) -> Iterator[Server]:
    """A running server; `wrap` turns its listening socket into another (TLS)."""
    script = Server()
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def setup(self) -> None:
            super().setup()
            script.connections += 1

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
            pass

        def do_GET(self) -> None:
            with lock:
                answer = script.next(self.path)
                script.headers.append(self.headers)
                script.times.append(time.monotonic())
                script.under_way += 1
                script.most_at_once = max(script.most_at_once, script.under_way)
            try:
                with contextlib.suppress(OSError):
                    self._send(answer)
            finally:
                with lock:
                    script.under_way -= 1

        def _send(self, answer: Answer) -> None:
            time.sleep(answer.delay)
            if answer.reset or answer.raw is not None:
                self.wfile.write(answer.raw or b"")
                self.close_connection = True
                return
            self.send_response(answer.status)
            for name, value in answer.headers:
                self.send_header(name, value)
            if not answer.endless:
                self.send_header("Content-Length", str(len(answer.body) * (2 if answer.cut else 1)))
            self.end_headers()
            pieces = [answer.body[i : i + 1] for i in range(len(answer.body))] if answer.drip else [answer.body]
            while True:
                for piece in pieces:
                    self.wfile.write(piece)
                    script.sent += len(piece)
                    time.sleep(answer.drip or 0)
                if not answer.endless:
                    break
            self.close_connection = answer.cut

    class Quiet(ThreadingHTTPServer):
        daemon_threads = True
        block_on_close = False
        request_queue_size = 128

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    http = Quiet((script.host, 0), Handler)
    if wrap is not None:
        http.socket = wrap(http.socket)
    script.port = urlsplit(f"//{http.server_address[0]!s}:{http.server_address[1]}").port or 0
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        http.shutdown()
        http.server_close()


@contextlib.contextmanager
def never_connecting() -> Iterator[int]:
    """The port of a server that accepts no one."""
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(4):  # fill its queue
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        yield full.getsockname()[1]
