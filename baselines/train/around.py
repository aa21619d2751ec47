"""What lies around the steps of a training: Ctrl-C, and the number of threads."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

import torch


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Ctrl-C sets the event, so that the step ends and the state is saved; a second one ends at once."""
    asked = threading.Event()

    def note(number: int, frame: Any) -> None:
        if asked.is_set():
            signal.default_int_handler(number, frame)
        asked.set()

    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or before is signal.SIG_IGN:
        yield asked
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def threads(number: int) -> Iterator[None]:
    """So many threads; 0 leaves them. On a busy machine two that wait for each other take four times as long as one."""
    before = torch.get_num_threads()
    if number:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)
