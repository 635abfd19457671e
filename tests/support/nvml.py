"""NVML as numbers: a stand-in for pynvml that answers as each kind of machine does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest

MIB = 1 << 20
UUIDS = [f"GPU-{n}{n}000000-0000-0000-0000-000000000000" for n in range(4)]


def error(name: str) -> Callable[..., Any]:
    """Return a function that fails as NVML does with that error."""

    def fail(*_: object, **__: object) -> Any:
        raise pynvml.NVMLError(getattr(pynvml, f"NVML_ERROR_{name}"))

    return fail


def process(pid: int, used_bytes: int | None) -> SimpleNamespace:
    """Return what NVML lists of one process; None is what pynvml makes of N/A."""
    return SimpleNamespace(pid=pid, usedGpuMemory=used_bytes)


class FakeNvml:
    """A machine with some H200 cards; every answer can be replaced with `says`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cards: Sequence[str]) -> None:
        self._monkeypatch = monkeypatch
        self.cards = list(cards)
        self.asked: list[Any] = []
        answers: dict[str, Callable[..., Any]] = {
            "nvmlInit": lambda: None,
            "nvmlDeviceGetCount": lambda: len(self.cards),
            "nvmlDeviceGetHandleByIndex": lambda index: index,
            "nvmlDeviceGetHandleByUUID": self._by_uuid,
            "nvmlDeviceGetUUID": lambda handle: UUIDS[handle],
            "nvmlDeviceGetName": lambda handle: self.cards[handle],
            "nvmlSystemGetDriverVersion": lambda: "580.159.04",
            "nvmlSystemGetCudaDriverVersion_v2": lambda: 13000,
            "nvmlDeviceGetMemoryInfo": self._memory,
            "nvmlDeviceGetComputeRunningProcesses": lambda handle: [],
            "nvmlDeviceGetGraphicsRunningProcesses": lambda handle: [],
            "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=0, memory=0),
            "nvmlDeviceGetClockInfo": lambda handle, kind: 345,
            "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 1980,
            "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 1,
            "nvmlDeviceGetTemperature": lambda handle, kind: 30,
            "nvmlDeviceGetPowerUsage": lambda handle: 76_500,
            "nvmlDeviceGetEnforcedPowerLimit": lambda handle: 700_000,
            "nvmlDeviceGetEccMode": lambda handle: [1, 1],
            "nvmlDeviceGetMigMode": lambda handle: [0, 0],
            "nvmlDeviceGetPersistenceMode": lambda handle: 1,
            "nvmlDeviceGetComputeMode": lambda handle: 0,
            "nvmlDeviceGetCurrentDriverModel": error("NOT_SUPPORTED"),
        }
        for name, answer in answers.items():
            self.says(name, answer)

    def says(self, name: str, answer: Callable[..., Any]) -> None:
        """Let one function answer so from now on."""
        self._monkeypatch.setattr(pynvml, name, answer)

    def _by_uuid(self, uuid: str) -> int:
        self.asked.append(uuid)
        if uuid not in UUIDS[: len(self.cards)]:
            return int(error("NOT_FOUND")())
        return UUIDS.index(uuid)

    def _memory(self, handle: int, version: int | None = None) -> SimpleNamespace:
        total = 1000 * MIB
        if version is None:
            return SimpleNamespace(total=total, used=100 * MIB, free=900 * MIB)
        return SimpleNamespace(total=total, used=60 * MIB, free=900 * MIB, reserved=40 * MIB)


def emulated_on(devices: int, code: str, memory: str = "24GiB", **environment: str) -> Any:
    """Run Python code on so many emulated GPUs; returns the JSON of its last line of output."""
    options = ["--memory", memory, "--devices", str(devices)]
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-m", "allocmark.emulator", *options, "--", sys.executable, "-c", code],
        check=False,
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "PYTHONPATH": path, **environment},
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
