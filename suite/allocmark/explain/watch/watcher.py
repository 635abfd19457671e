"""`watch`: a thread that writes this process's counters to a file, about once a second.

The file is written whole, belongs to the user alone and goes with the process. A process that is
killed leaves it behind; the next watched one sweeps it away.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import threading
import time
import warnings
from typing import Any

from . import counters, place

FORMAT = 1
INTERVAL_S = 1.0
_PATIENCE_S = 2.0
_VISIBLE = "CUDA_VISIBLE_DEVICES"


def watch() -> None:
    """Have `allocmark explain --pid` see what this process counts; returns at once.

    It neither imports a framework nor starts CUDA, and a second call does nothing. A forked child
    is not watched until it asks for it. Where no file can be written it warns and does no more.
    """
    try:
        start()
    except OSError as error:
        warnings.warn(f"allocmark cannot watch this process: {error}", stacklevel=2)


def start() -> None:
    """Do the same without a warning. Raises `OSError` where no file can be written."""
    global _running
    with _lock:
        if _running is None or _running.pid != os.getpid():
            _running = _Watcher(place.make_folder())


class _Watcher:
    def __init__(self, folder: str) -> None:
        self.pid = os.getpid()
        self._ticks = place.start_ticks(self.pid)
        self._folder = folder
        self._path = place.file_of(folder, self.pid)
        self._most: dict[tuple[str, int], float] = {}
        self._end = threading.Event()
        _sweep(folder)
        self._write()
        # A daemon: the program ends when it wants to.
        self._thread = threading.Thread(target=self._run, name="allocmark-watch", daemon=True)
        self._thread.start()
        atexit.register(self._at_exit)

    def _run(self) -> None:
        while not self._end.wait(INTERVAL_S):
            with contextlib.suppress(Exception):  # A full disk is none of the program's business.
                self._write()

    def _at_exit(self) -> None:
        if os.getpid() != self.pid:
            return
        # Frameworks go away next: nobody may be asking them then.
        self._end.set()
        self._thread.join(_PATIENCE_S)
        with contextlib.suppress(OSError):
            os.unlink(self._path)  # noqa: PTH108

    def _write(self) -> None:
        devices = counters.read()
        for device in devices:
            device["most_cached_share"] = self._most_cached(device)
        told = {
            "format": FORMAT,
            "pid": self.pid,
            "start_ticks": self._ticks,
            "written_s": time.monotonic(),
            "visible": os.environ.get(_VISIBLE),
            "devices": devices,
        }
        temporary = f"{self._path}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as stream:
            json.dump(told, stream)
        os.replace(temporary, self._path)  # noqa: PTH105

    def _most_cached(self, device: dict[str, Any]) -> float | None:
        """Return the largest share of the cache so far: the diagnostic rule asks for it."""
        reserved = device.get("reserved_bytes")
        if reserved is None:
            return None
        share = 1 - device["live_bytes"] / reserved if reserved else 0.0
        place_of = (device["framework"], device["device"])
        self._most[place_of] = max(share, self._most.get(place_of, 0.0))
        return self._most[place_of]


def _sweep(folder: str) -> None:
    """Remove what processes that were killed have left."""
    for name in os.listdir(folder):  # noqa: PTH208
        pid = name.partition(".")[0]
        if pid.isdecimal() and place.start_ticks(int(pid)) is None:
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, name))  # noqa: PTH108, PTH118


_lock = threading.Lock()
_running: _Watcher | None = None
