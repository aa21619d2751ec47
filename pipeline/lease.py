"""Keeps two runs out of one output folder: a small file says who works there, and that it is still alive.

`<output>/.winnow/leases/<index>-<number>.json` holds host, process and the time of the last sign of life, which comes every
10 seconds. A lease whose process is gone (on this host) or silent for two minutes (on another) is taken over. Parts of one
run (`--part I/N`) work side by side. Clocks of machines that share a folder may differ by less than those two minutes.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pools import store
from pools.errors import InputError, WorkFailed

BEAT = 10.0  # seconds between signs of life
STALE = 120.0  # seconds of silence after which a lease on another host counts for nothing
_SETTLE = 0.5  # seconds after which it is asked who came last, where several may have come at once


class Held(InputError):
    """Somebody else holds it, and lives."""


class Lease:
    """Held between `take` and `release`; `renew` writes it anew, should the folder have been emptied."""

    def __init__(self, output: str, part: tuple[int, int] = (0, 1)) -> None:
        self._output, self._part = output, part
        self._folder = store.join(output, ".winnow", "leases")
        self._path = store.join(self._folder, _file(part))
        self._me = {"host": socket.gethostname(), "pid": os.getpid(), "boot": _boot(), "token": uuid.uuid4().hex}
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)

    def take(self) -> None:
        """Raises Held if a living process works on the folder, or on the same part of it."""
        settled = store.is_local(self._path)
        for name in store.list_files(self._folder, ".json") if store.is_dir(self._folder) else []:
            path = store.join(self._folder, name)
            if (holder := _read(path)) is None:
                continue
            # Other parts of the same number of parts work beside this one.
            beside = name.endswith(f"-{self._part[1]}.json") and name != _file(self._part)
            if self._alive(holder):
                if not beside:
                    raise self._held(holder)
            else:
                _remove(path)
                settled = False  # another may have found it as stale, and take away what is put in its place
        if store.is_local(self._path):
            self._create()
        else:
            self.renew()
        if not settled:
            time.sleep(_SETTLE)
            if (holder := _read(self._path)) is None or holder.get("token") != self._me["token"]:
                raise self._held(holder or {})
        self._thread.start()

    def renew(self) -> None:
        store.write_json(self._path, {**self._me, "alive": time.time()})

    def release(self) -> None:
        self._end.set()
        if self._thread.ident is not None:
            self._thread.join()
            _remove(self._path)
            _remove(store.join(self._folder, f".{_file(self._part)}.partial"))  # of a killed run's last sign of life

    def _create(self) -> None:
        """The file with its content at once, or none: a link to it fails where the name is taken."""
        path = Path(store.local_path(self._path))
        path.parent.mkdir(parents=True, exist_ok=True)
        for left in path.parent.glob(f"*.{self._me['host']}.new"):  # by processes that were killed at this very place
            if not _runs(int(left.name.split(".")[0])):
                left.unlink(missing_ok=True)
        new = path.parent / f"{os.getpid()}.{self._me['host']}.new"
        new.write_text(json.dumps({**self._me, "alive": time.time()}))
        try:
            os.link(new, path)
        except FileExistsError:
            raise self._held(_read(self._path) or {}) from None
        finally:
            new.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._end.wait(BEAT):
            # A store that does not answer now may do so at the next beat; the work itself will say if it does not.
            with contextlib.suppress(OSError, WorkFailed):
                self.renew()

    def _alive(self, holder: dict[str, Any]) -> bool:
        here = holder.get("host") == self._me["host"] and holder.get("boot") == self._me["boot"]
        if here and (holder["pid"] == os.getpid() or not _runs(int(holder["pid"]))):
            return False
        # Here too: its number may be another process's by now.
        return time.time() - float(holder.get("alive", 0)) < STALE

    def _held(self, holder: dict[str, Any]) -> Held:
        return Held(
            f"another run works here: process {holder.get('pid', '?')} on {holder.get('host', '?')}",
            where=self._output,
            expected="one run a folder",
            fix="wait for it, or share the work: --part 0/2 here, --part 1/2 there",
        )


@contextlib.contextmanager
def held(lease: Lease) -> Iterator[None]:
    """Takes a lease for the block."""
    lease.take()
    try:
        yield
    finally:
        lease.release()


def _file(part: tuple[int, int]) -> str:
    return f"{part[0]}-{part[1]}.json"


def _read(path: str) -> dict[str, Any] | None:
    """None if it is gone, or was cut."""
    try:
        found: dict[str, Any] = store.read_json(path)
    except (FileNotFoundError, InputError):
        return None
    return found


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        store.remove_tree(path)


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _boot() -> str:
    """Tells this start of the machine (or container's host) from others: process numbers begin anew."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as f:  # noqa: PTH123
            return f.read().strip()
    except OSError:
        return ""
