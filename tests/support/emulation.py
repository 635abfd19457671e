"""Traces by hand, an allocator without a GPU, and a way to run code on the emulated driver."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from allocmark.allocators.base import Allocator, Capability, Stats
from allocmark.system.errors import DeviceOutOfMemoryError
from allocmark.workloads.event_trace import Op, Trace


def trace(*events: tuple[Op, int, int] | tuple[Op, int, int, int], name: str = "crafted") -> Trace:
    """Return a trace of (op, block, size[, stream]) events."""
    rows = [(*event, 0)[:4] for event in events]
    op, block, size, stream = zip(*rows, strict=True) if rows else ((), (), (), ())
    return Trace(
        name,
        np.array(op, dtype=np.uint8),
        np.array(block, dtype=np.int64),
        np.array(size, dtype=np.int64),
        np.array(stream, dtype=np.uint8),
    )


def alloc(block: int, size: int, stream: int = 0) -> tuple[Op, int, int, int]:
    return (Op.ALLOC, block, size, stream)


def free(block: int, stream: int = 0) -> tuple[Op, int, int, int]:
    return (Op.FREE, block, 0, stream)


class CountingAllocator(Allocator):
    """Serves requests out of a number, and remembers what it was asked."""

    framework = "cuda"
    capabilities = frozenset({Capability.RESTART, Capability.EXACT})

    def __init__(self, capacity: int = 1 << 60) -> None:
        super().__init__("counting")
        self.capacity = capacity
        self.live: dict[int, int] = {}
        self.calls: list[tuple[str, int, int]] = []
        self._next = 1

    def open(self, device: int) -> None:
        pass

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        if sum(self.live.values()) + size_bytes > self.capacity:
            raise DeviceOutOfMemoryError("out of memory, says the test")
        self._next += 1
        self.live[self._next] = size_bytes
        self.calls.append(("alloc", size_bytes, stream))
        return self._next

    def alloc_shared(self, size_bytes: int, stream: int = 0) -> int:
        block = self.alloc(size_bytes, stream)
        self.calls[-1] = ("alloc_shared", size_bytes, stream)
        return block

    def free(self, block: int, stream: int = 0) -> None:
        self.calls.append(("free", self.live.pop(block), stream))

    def synchronize(self) -> None:
        pass

    def stats(self) -> Stats:
        allocated = sum(self.live.values())
        return Stats(allocated_bytes=allocated, reserved_bytes=allocated)

    def restart(self) -> None:
        self.live.clear()


def missing_for_emulation(*modules: str) -> str | None:
    """Return why code cannot run on the emulated driver here, None where it can."""
    if importlib.util.find_spec("allocmark.emulator.__main__") is None:
        return "the emulated driver is not part of this checkout"
    for module in modules:
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return None


def emulated(memory: str, code: str, environment: dict[str, str] | None = None) -> Any:
    """Run Python code on the emulated driver; returns the JSON of its last line of output."""
    command = [sys.executable, "-m", "allocmark.emulator", "--memory", memory, "--"]
    done = subprocess.run(
        [*command, sys.executable, "-c", _PRELUDE + code],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        env={**_base_environment(), **(environment or {})},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def run_on_h200(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run this Python with these arguments on an emulated H200, beside a real driver too."""
    launcher = ["-m", "allocmark.emulator", "--gpu", "h200", "--memory", "141GiB", "--"]
    return subprocess.run(
        [sys.executable, *launcher, sys.executable, *arguments],
        env=_base_environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def _base_environment() -> dict[str, str]:
    here = str(Path(__file__).parents[2])
    path = os.pathsep.join(filter(None, [here, *sys.path]))
    return {**os.environ, "PYTHONPATH": path}


_PRELUDE = """
import json, sys
from allocmark.allocators import registry
from tests.support.emulation import alloc, free, trace
from allocmark.workloads.event_trace import Op
MIB = 1 << 20
"""

needs_emulator = pytest.mark.skipif(
    (reason := missing_for_emulation()) is not None, reason=reason or ""
)
needs_torch = pytest.mark.skipif(
    (torch_reason := missing_for_emulation("torch")) is not None, reason=torch_reason or ""
)
needs_tensorflow = pytest.mark.skipif(
    (tensorflow_reason := missing_for_emulation("tensorflow")) is not None,
    reason=tensorflow_reason or "",
)
