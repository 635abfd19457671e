"""The check of all visible GPUs: NVML here, everything that may hang in processes of its own."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

from allocmark.check import child, judging, nvml_health
from allocmark.check.finding import Finding
from allocmark.check.record import Expected, expected
from allocmark.machine import nvml as nvml_meter
from allocmark.machine.conditions import read_conditions
from allocmark.machine.emulated import is_emulated
from allocmark.machine.stack import installed
from allocmark.system import interpreters
from allocmark.system.errors import AllocmarkError, NoGpuError
from allocmark.system.units import MIB, format_bytes

DRIVER_LIMIT_S, TORCH_LIMIT_S, PEER_LIMIT_S = 9.0, 8.0, 20.0
"""Both parts of one GPU end within 20 s; on an H200 they take a few. GPUs are checked at once."""
LEFT_BEHIND_BYTES = 16 * MIB
"""What may stay in use after a process: the driver's own start takes 3 MiB of an H200, once."""
SETTLED_S = 2.0
"""So long a process that has ended may still be giving its memory back."""


def check(results: Sequence[Path]) -> list[Finding]:
    """Return what is found on every GPU that CUDA may see here; never raises.

    `results` are the folders with records that bytes and times are held against.
    """
    try:
        uuids = nvml_meter.visible_devices()
    except AllocmarkError as error:
        return [Finding(None, "NVML", "unasked", str(error))]
    if not uuids:
        reason = f"CUDA sees no GPU here ({nvml_meter.VISIBLE})"
        return [Finding(None, "NVML", "unasked", reason)]
    with ThreadPoolExecutor(len(uuids)) as pool:
        each = list(pool.map(lambda gpu: _one(gpu, results), range(len(uuids))))
    findings = [finding for found in each for finding in found]
    if len(uuids) > 1:
        answer = child.ask(_command("peer_part"), os.environ, PEER_LIMIT_S)
        findings += (
            [judging.broken(None, "peer access", answer)]
            if answer.failure
            else judging.peer_findings(answer.readings)
        )
    return findings


def _one(gpu: int, results: Sequence[Path]) -> list[Finding]:
    try:
        return list(_findings(gpu, results))
    except NoGpuError as error:
        return [Finding(gpu, "NVML", "fault", str(error))]


def _findings(gpu: int, results: Sequence[Path]) -> Iterator[Finding]:
    nvml, handle = nvml_meter.open_device(gpu)
    try:
        facts = _facts(nvml, handle)
    except nvml.NVMLError as error:
        yield Finding(gpu, "NVML", "fault", nvml_meter.in_words(error))
        return
    known = expected(results, facts["gpu"], facts["driver"], is_emulated())
    conditions = read_conditions(gpu)
    yield from nvml_health.errors(nvml, handle, gpu)
    yield from nvml_health.processes(nvml, handle, gpu, conditions, facts["reserve_bytes"])
    alone = not conditions.other_processes
    yield from _driver(gpu, known, facts, alone)
    yield from _torch(gpu)
    yield from _left_behind(nvml, handle, gpu, conditions.device_used_bytes, alone)


def _facts(nvml: ModuleType, handle: Any) -> dict[str, Any]:
    memory = nvml.nvmlDeviceGetMemoryInfo(handle)
    detailed = nvml_meter.read_or_none(
        lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2)
    )
    return {
        "gpu": nvml_meter.as_text(nvml.nvmlDeviceGetName(handle)),
        "driver": nvml_meter.as_text(nvml.nvmlSystemGetDriverVersion()),
        "total_bytes": int(memory.total),
        "reserve_bytes": 0 if detailed is None else int(detailed.reserved),
    }


def _driver(gpu: int, known: Expected, facts: dict[str, Any], alone: bool) -> Iterable[Finding]:
    answer = child.ask(_command("driver_part", gpu), os.environ, DRIVER_LIMIT_S)
    if answer.failure:
        return [judging.broken(gpu, "driver", answer)]
    readings = {**answer.readings, "nvml_total_bytes": facts["total_bytes"]}
    return judging.driver_findings(gpu, readings, known, alone)


def _torch(gpu: int) -> Iterable[Finding]:
    """Check torch's allocator where it is installed for CUDA; to have none is no fault."""
    try:
        found = installed("torch")
    except AllocmarkError as error:
        return [Finding(gpu, "torch", "note", str(error))]
    if found.get("torch") is None:
        return [Finding(gpu, "torch", "note", "torch is not installed here")]
    if not found.get("torch cuda") and not is_emulated():
        return [Finding(gpu, "torch", "note", f"torch {found['torch']} is a build without CUDA")]
    command = interpreters.command("torch", "allocmark.check.torch_part", [str(gpu)])
    environment = interpreters.environment("torch", os.environ)
    answer = child.ask(command, environment, TORCH_LIMIT_S)
    if answer.failure:
        return [judging.broken(gpu, "torch", answer)]
    return judging.torch_findings(gpu, answer.readings)


def _left_behind(
    nvml: ModuleType, handle: Any, gpu: int, before: int | None, alone: bool
) -> Iterator[Finding]:
    """Say what the check's own processes have left in use; a neighbour may have taken it."""

    def used() -> int | None:
        return nvml_meter.read_or_none(lambda: int(nvml.nvmlDeviceGetMemoryInfo(handle).used))

    end, after = time.monotonic() + SETTLED_S, used()
    while before and after and after > before + LEFT_BEHIND_BYTES and time.monotonic() < end:
        time.sleep(0.1)
        after = used()
    if before is None or after is None:
        yield Finding(gpu, "left behind", "fault", "NVML does not tell the memory in use any more")
        return
    left = after - before
    if left > LEFT_BEHIND_BYTES:
        reason = f"{format_bytes(left)} more are in use than before the check"
        yield Finding(gpu, "left behind", "fault" if alone else "unclear", reason)
    else:
        yield Finding(gpu, "left behind", "fine", "the check has left nothing behind")


def _command(part: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"allocmark.check.{part}", *map(str, arguments)]
