"""Inside the recorded program: starts torch's history as CUDA starts, writes the snapshot.

Runs in any interpreter that has torch 2.1 or newer, so it uses the standard library only. Nothing
here may change what the program does, or end it: every fault is reported and passed over.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import importlib.util
import itertools
import json
import os
import pickle
import signal
import sys
import tempfile
import threading
import time
from types import FrameType
from typing import Any

import allocmark_outside_memory as outside_memory  # type: ignore[import-not-found]
import allocmark_torch_import  # type: ignore[import-not-found]

VARIABLE = "ALLOCMARK_RECORD"
"""A JSON object: out, reports, max_entries, stacks, on_oom."""
FORMAT = 1
_PAIRS = 500
_ROUNDS = 5
_REST = 5
"""After a snapshot at an OOM none is written for so many times as long as it took."""
_PROTOCOL = 4
"""The newest of Python's pickles that pytorch.org/memory_viz reads."""
_DEPTH = 20
"""Frames on the stack while the cost of an event is measured."""
_COUNTERS = {
    "peak_requested_bytes": "requested_bytes.all.peak",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.current",
    "peak_segments": "segment.all.peak",
    "retries": "num_alloc_retries",
    "ooms": "num_ooms",
    "driver_allocs": "num_device_alloc",
    "driver_frees": "num_device_free",
}


def install() -> None:
    """Wait for torch to be imported, if this process is to be recorded at all."""
    text = os.environ.get(VARIABLE)
    if text:
        allocmark_torch_import.when_imported(_Recorder(json.loads(text)).torch_imported)


class _Recorder:
    """One process of the program."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings, self._folder = settings, settings["reports"]
        self._torch: Any = None
        self._out, self._owner, self._started = "", 0, ""
        self._begin = self._start_seconds = 0.0
        self._ended_by_oom = self._passed_over = False
        self._written_at, self._write_seconds = 0.0, 0.0
        self._setting_at_start: str | None = None
        self._fractions: dict[int, float] = {}
        self._outside: Any = None

    def torch_imported(self, torch: Any) -> None:
        """Have the history begin with CUDA, without starting it."""
        self._torch = torch
        if torch.version.cuda is not None:
            torch.cuda._lazy_call(self._guarded_start)
            self._on_signals()

    def _guarded_start(self) -> None:
        try:
            self._start()
        except Exception as error:
            self._report(why="start", fault=_words(error))

    def _start(self) -> None:
        self._begin = time.monotonic()
        torch = self._torch
        self._owner = os.getpid()
        # A process that replaces itself (os.exec) starts CUDA twice under one number.
        self._started = f"{time.monotonic_ns():020}.{os.getpid()}"
        with contextlib.suppress(OSError):
            name = f"started.{self._started}"
            os.close(os.open(os.path.join(self._folder, name), os.O_CREAT))  # noqa: PTH118
        self._out = self._claim(self._settings["out"])
        torch.cuda.memory._record_memory_history(
            "all",
            context="all" if self._settings["stacks"] else None,
            stacks="python",
            max_entries=self._settings["max_entries"],
        )
        with contextlib.suppress(Exception):
            self._setting_at_start = _setting(torch.cuda.memory._snapshot())
        with contextlib.suppress(Exception):
            self._hear_of_fractions()
        torch._C._cuda_attach_out_of_memory_observer(self._on_oom)
        self._watch_exceptions()
        atexit.register(self._at_exit)
        self._watch_ends_without_exit()
        with contextlib.suppress(Exception):
            _tell_counters()
        self._outside = outside_memory.OutsideMemory(torch)
        self._outside.start()
        self._start_seconds = time.monotonic() - self._begin

    def _hear_of_fractions(self) -> None:
        """Remember the memory fractions that are set, where this torch does not tell them."""
        core = self._torch._C
        if hasattr(core, "_cuda_getMemoryFraction"):
            return
        set_fraction = core._cuda_setMemoryFraction

        def heard(fraction: float, device: int) -> None:
            set_fraction(fraction, device)
            self._fractions[device] = float(fraction)

        core._cuda_setMemoryFraction = heard

    def _fraction(self, device: int) -> float:
        """Return the share of a device that the process allows itself, 1 for all of it."""
        get = getattr(self._torch._C, "_cuda_getMemoryFraction", None)
        return self._fractions.get(device, 1.0) if get is None else float(get(device))

    def _claim(self, out: str) -> str:
        """Return a file that no other process of this run writes."""
        stem, ending = _split(out)
        rank = os.environ.get("RANK", "")
        if rank.isdecimal() and int(os.environ.get("WORLD_SIZE", "1") or 1) > 1:
            return f"{stem}.rank{rank}{ending}"
        try:
            first = os.path.join(self._folder, "first")  # noqa: PTH118
            os.close(os.open(first, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return f"{stem}.pid{os.getpid()}{ending}"
        return out

    def _watch_exceptions(self) -> None:
        """Learn whether the program ended because memory ran out."""
        before = sys.excepthook

        def hook(kind: type[BaseException], error: BaseException, trace: Any) -> None:
            allocators = issubclass(kind, self._torch.cuda.OutOfMemoryError)
            self._ended_by_oom = allocators or _of_the_driver(error)
            if self._ended_by_oom and not allocators and os.getpid() == self._owner:
                self._write("oom")  # No observer hears of it.
            before(kind, error, trace)

        sys.excepthook = hook

    def _watch_ends_without_exit(self) -> None:
        """Write before os._exit and os.exec too, as which a child of multiprocessing ends.

        Not in another thread: a watchdog ends a program that hangs, perhaps in its allocator.
        """

        def before(end: Any) -> Any:
            @functools.wraps(end)
            def ending(*arguments: Any, **options: Any) -> Any:
                if threading.current_thread() is threading.main_thread():
                    self._at_exit(measure=False)
                return end(*arguments, **options)

            return ending

        for name in ("_exit", "execv", "execve"):  # The others of os.exec are made of these.
            setattr(os, name, before(getattr(os, name)))

    def _on_oom(self, device: int, requested: int, total: int, free: int) -> None:
        if os.getpid() != self._owner:
            return
        # A program that finds its batch size by failing must not write for longer than it runs.
        rested = time.monotonic() - self._written_at
        self._passed_over = rested < _REST * self._write_seconds
        if not self._passed_over:
            self._write("oom")

    def _at_exit(self, measure: bool = True) -> None:
        if os.getpid() != self._owner:
            return
        self._outside.stop()
        if self._passed_over or not (self._ended_by_oom or self._settings["on_oom"]):
            self._write("exit", measure=measure)
        if measure:
            self._owner = 0  # The history is off.

    def _on_signals(self) -> None:
        """Write at SIGTERM, where the program has no handler of its own."""
        with contextlib.suppress(ValueError):  # Not the main thread.
            if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
                signal.signal(signal.SIGTERM, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() == self._owner and not self._settings["on_oom"]:
            self._write("signal")
        signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)

    def _write(self, why: str, measure: bool = False) -> None:
        """Write the snapshot, whole or not at all, and report it."""
        begin = time.monotonic()
        try:
            snapshot = self._torch.cuda.memory._snapshot()
            snapshot["allocmark"] = self._facts(why)
            self._out = _write_whole(self._out, snapshot, own=self._written_at > 0)
        except BaseException as error:
            number = getattr(error, "errno", None)
            self._report(why=why, fault=_words(error), errno=number, out=self._out)
            return
        self._written_at = time.monotonic()
        self._write_seconds = seconds = self._written_at - begin
        entries = sum(map(len, snapshot["device_traces"]))
        report = {
            "why": why,
            "file": self._out,
            "file_bytes": os.stat(self._out).st_size,  # noqa: PTH116
            "entries": entries,
            "full": any(len(t) >= self._settings["max_entries"] for t in snapshot["device_traces"]),
            "program_seconds": begin - self._begin,
            "start_seconds": self._start_seconds,
            "write_seconds": seconds,
        }
        del snapshot
        if measure:
            with contextlib.suppress(Exception):
                report["event_seconds"] = self._event_seconds()
        self._report(**report)

    def _facts(self, why: str) -> dict[str, Any]:
        """Return what the snapshot itself does not tell, as plain data."""
        torch = self._torch
        cuda = torch.cuda
        counters = {}
        for device in range(cuda.device_count()):
            stats = cuda.memory_stats(device)
            own = {ours: stats[theirs] for ours, theirs in _COUNTERS.items() if theirs in stats}
            if own.get("peak_reserved_bytes"):
                counters[str(device)] = own
        main = max(counters, key=lambda d: counters[d]["peak_reserved_bytes"], default="0")
        return {
            "format": FORMAT,
            "why": why,
            "torch": str(torch.__version__),  # A class of its own, which no plain reader builds.
            "cuda": torch.version.cuda,
            "python": sys.version.split()[0],
            "backend": cuda.get_allocator_backend(),
            "gpu": cuda.get_device_name(int(main)),
            "device": int(main),
            **_card(cuda, int(main)),
            "reserved_bytes": cuda.memory_reserved(int(main)),
            "memory_fraction": self._fraction(int(main)),
            "setting_at_start": self._setting_at_start,
            "process_bytes": outside_memory.process_bytes(cuda, int(main)),
            "peak_outside_bytes": self._outside.peak_bytes.get(int(main))
            if self._outside
            else None,
            "max_entries": self._settings["max_entries"],
            "counters": counters,
            "job": getattr(sys.modules.get("allocmark_rank_hook"), "facts", dict)(),
        }

    def _event_seconds(self) -> float:
        """Return what recording one event costs: pairs with the history on, less the same off."""
        memory = self._torch.cuda.memory
        self._pairs(_DEPTH)  # What is slow the first time is none of its cost.
        with_history = min(self._pairs(_DEPTH) for _ in range(_ROUNDS))
        memory._record_memory_history(None)
        without = min(self._pairs(_DEPTH) for _ in range(_ROUNDS))
        # A pair is an allocation, a request to free and its completion.
        return max(0.0, with_history - without) / (3 * _PAIRS)

    def _pairs(self, depth: int) -> float:
        if depth:
            return self._pairs(depth - 1)
        empty, kind = self._torch.empty, self._torch.uint8
        begin = time.perf_counter()
        for _ in range(_PAIRS):
            empty(512, dtype=kind, device="cuda")
        return time.perf_counter() - begin

    def _report(self, **report: Any) -> None:
        with contextlib.suppress(OSError):
            name = f"report.{os.getpid()}.{time.monotonic_ns()}"
            path = os.path.join(self._folder, name)  # noqa: PTH118
            with open(path, "w", encoding="utf-8") as stream:  # noqa: PTH123
                json.dump({"started": self._started, **report}, stream)


def _setting(snapshot: dict[str, Any]) -> str | None:
    """Return the text of the allocator's setting, None where a snapshot does not tell it."""
    text = snapshot.get("allocator_settings", {}).get("PYTORCH_CUDA_ALLOC_CONF")
    return text if isinstance(text, str) else None


def _of_the_driver(error: BaseException) -> bool:
    """Say whether a call of CUDA itself, not torch's allocator, found no memory."""
    text = str(error)
    return isinstance(error, RuntimeError) and "CUDA" in text and "out of memory" in text


def _words(error: BaseException) -> str:
    """Return an error's class and first line."""
    return f"{type(error).__name__}: {error}".partition("\n")[0][:500]


def _card(cuda: Any, device: int) -> dict[str, int]:
    """Return the card's bytes; what is free takes a context, which a full card has no room for."""
    try:
        free, total = cuda.mem_get_info(device)
    except RuntimeError:
        return {"total_bytes": cuda.get_device_properties(device).total_memory}
    return {"total_bytes": total, "free_bytes": free}


def _tell_counters() -> None:
    """Let `allocmark explain` see this process; the suite itself need not be importable here."""
    name = "allocmark_watching"
    folder = os.path.join(os.path.dirname(__file__), "..", "..", "explain", "watch")  # noqa: PTH118, PTH120
    init = os.path.join(folder, "__init__.py")  # noqa: PTH118
    spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[folder])
    if spec is not None and spec.loader is not None:
        sys.modules[name] = package = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package)
        importlib.import_module(f"{name}.watcher").start()


def _split(out: str) -> tuple[str, str]:
    """Return a path without the ending of its name, and that ending with its point."""
    stem, dot, ending = out.rpartition(".")
    return (out, "") if not dot or "/" in ending else (stem, dot + ending)


def _write_whole(out: str, snapshot: object, own: bool) -> str:
    """Write a snapshot and return its file: only one of this process's own is replaced."""
    folder = os.path.dirname(os.path.abspath(out))  # noqa: PTH100, PTH120
    handle, temporary = tempfile.mkstemp(dir=folder, prefix=".recording-")
    try:
        with os.fdopen(handle, "wb") as stream:
            pickle.dump(snapshot, stream, _PROTOCOL)
        if own:
            os.replace(temporary, out)  # noqa: PTH105
            return out
        return _place(temporary, out)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)  # noqa: PTH108
        raise


def _place(temporary: str, out: str) -> str:
    """Give a file its name, or the next free one where another has come there meanwhile."""
    stem, ending = _split(out)
    numbered = (f"{stem}-{number}{ending}" for number in itertools.count(2))
    for name in itertools.chain([out], numbered):
        try:
            os.link(temporary, name)
        except FileExistsError:
            continue
        except OSError:  # A file system without links.
            if os.path.lexists(name):
                continue
            os.rename(temporary, name)  # noqa: PTH104
            break
        os.unlink(temporary)  # noqa: PTH108
        break
    return name
