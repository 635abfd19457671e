"""Children on the emulated driver: each test sends code and reads what the code reports."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import allocmark

SOURCE_ROOT = Path(allocmark.__file__).parents[1]
# Every child may use these: the runtime by ctypes, bytes by name, a report as the last line.
PRELUDE = """
import ctypes, json, os, sys
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
def runtime(name, *arguments):
    return getattr(ctypes.CDLL("libcudart.so.13"), name)(*arguments)
def malloc(size):
    pointer = ctypes.c_void_p()
    code = runtime("cudaMalloc", ctypes.byref(pointer), ctypes.c_size_t(size))
    return code, pointer.value
def free(pointer):
    return runtime("cudaFree", ctypes.c_void_p(pointer))
def free_bytes():
    free_, total = ctypes.c_size_t(), ctypes.c_size_t()
    assert runtime("cudaMemGetInfo", ctypes.byref(free_), ctypes.byref(total)) == 0
    return free_.value
def report(value):
    print(json.dumps(value), flush=True)
"""


def launcher(memory: str = "4GiB", devices: int = 1, times: bool = False) -> list[str]:
    """Return the command that starts another one on the emulated driver."""
    emulator = [sys.executable, "-m", "allocmark.emulator", "--gpu", "h200"]
    emulator += ["--times"] if times else []
    return [*emulator, "--memory", memory, "--devices", str(devices), "--"]


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a child: ours, the package's path and `extra`."""
    return {**os.environ, "PYTHONPATH": str(SOURCE_ROOT), **extra}


def run(
    code: str,
    *,
    memory: str = "4GiB",
    devices: int = 1,
    times: bool = False,
    variables: Mapping[str, str] | None = None,
    arguments: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run Python code in a child on the emulated driver and return how it ended."""
    return subprocess.run(
        [*launcher(memory, devices, times), sys.executable, "-c", PRELUDE + code, *arguments],
        env=environment(variables or {}),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def emulated(code: str, **options: Any) -> Any:
    """Run code as `run` does, which must end well; returns the last value it reported."""
    done = run(code, **options)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])
