"""What NVML knows of a GPU's memory: errors, pages taken out of use, and who holds how much.

Source: NVML API reference, "Device Queries": ECC counters, remapped rows (Ampere and later),
retired pages (earlier GPUs).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from allocmark.check.finding import Finding, Level
from allocmark.machine.conditions import Conditions
from allocmark.machine.nvml import processes_on, read_or_none
from allocmark.system.units import MIB, format_bytes

UNLISTED_BYTES = 64 * MIB
"""What may be in use beside the driver's reserve and the listed processes: small change of the
driver (3 MiB of an H200 once it is initialised)."""


def errors(nvml: ModuleType, handle: Any, gpu: int) -> Iterator[Finding]:
    """Yield a finding for each kind of memory error that this GPU counts."""
    kind = nvml.NVML_MEMORY_ERROR_TYPE_UNCORRECTED
    counters: tuple[tuple[int, str, Level], ...] = (
        (nvml.NVML_VOLATILE_ECC, "since the driver was loaded", "fault"),
        (nvml.NVML_AGGREGATE_ECC, "in the GPU's life", "note"),
    )
    for counter, words, level in counters:
        count = read_or_none(
            lambda counter=counter: int(nvml.nvmlDeviceGetTotalEccErrors(handle, kind, counter))  # type: ignore[misc]
        )
        if count is None:
            yield Finding(gpu, "ECC", "note", f"NVML tells no errors {words}")
        else:
            reason = f"{count} uncorrectable memory errors {words}"
            yield Finding(gpu, "ECC", level if count else "fine", reason)
    rows = read_or_none(lambda: nvml.nvmlDeviceGetRemappedRows(handle))
    if rows is not None:
        _, _, pending, failed = rows
        reason = "no memory row waits to be remapped"
        if failed:
            reason = "a memory row could not be remapped: have the GPU replaced"
        elif pending:
            reason = "a memory row waits to be remapped: reset the GPU"
        yield Finding(gpu, "remapped rows", "fault" if failed or pending else "fine", reason)
    waiting = read_or_none(lambda: nvml.nvmlDeviceGetRetiredPagesPendingStatus(handle))
    if waiting is not None:
        reason = "a page waits to be retired: reset the GPU" if waiting else "no page waits"
        yield Finding(gpu, "retired pages", "fault" if waiting else "fine", reason)


def processes(
    nvml: ModuleType, handle: Any, gpu: int, conditions: Conditions, reserve_bytes: int
) -> Iterator[Finding]:
    """Yield findings on who holds memory of a GPU that nobody else is expected to use.

    `reserve_bytes` is what the driver keeps of the card and counts as used. A process that has
    ended and is still listed is a fault, one that lives is not ours to judge.
    """
    listed = processes_on(nvml, handle)
    if listed is None:
        yield Finding(gpu, "processes", "note", "NVML lists no processes here")
    known = {pid: held for pid, held in (listed or {}).items() if pid != os.getpid()}
    for pid, held in sorted(known.items()):
        size = "an unknown size" if held is None else format_bytes(held)
        if conditions.container or Path(f"/proc/{pid}").exists():
            yield Finding(gpu, "processes", "unclear", f"process {pid} holds {size}: end it")
        else:
            reason = f"process {pid} has ended and still holds {size}: reset the GPU"
            yield Finding(gpu, "processes", "fault", reason)
    if listed is not None and not known:
        yield Finding(gpu, "processes", "fine", "no other process uses the GPU")
    used = conditions.device_used_bytes
    if used is None or None in known.values():
        return
    unlisted = used - reserve_bytes - sum(held or 0 for held in known.values())
    if unlisted <= UNLISTED_BYTES:
        yield Finding(gpu, "unlisted memory", "fine", "all memory in use belongs to somebody")
        return
    reason = f"{format_bytes(unlisted)} are in use that no listed process holds"
    if conditions.container or listed is None:
        reason += " (a container hides those of others)"
        yield Finding(gpu, "unlisted memory", "unclear", reason)
    else:
        yield Finding(gpu, "unlisted memory", "fault", f"{reason}: reset the GPU")
