"""`allocmark explain --pid PID`: from a process id to an answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.explain import counter_file, devices, measured_facts, process, rules
from allocmark.explain.account import Account, take_apart
from allocmark.explain.counter_file import CounterReport, Counters
from allocmark.explain.devices import Gpu
from allocmark.explain.process import Process
from allocmark.explain.rules import Diagnosis
from allocmark.machine.emulated import is_emulated
from allocmark.system.errors import AllocmarkError


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """A process on each GPU that it uses; `age_s` is the age of its counters, None without any."""

    process: Process
    emulated: bool
    age_s: float | None
    gpus: tuple[tuple[Account, Diagnosis], ...]


def explain(pid: int, results: Sequence[Path], must_be: bool) -> ProcessReport:
    """Return what a process does with GPU memory, by what was measured in some results folders.

    Raises `AllocmarkError` with one sentence where there is no such process, GPU or use of one,
    where its counters cannot be believed, or where results that `must_be` there are not.
    """
    found = process.find(pid)
    machine = devices.read()
    report = counter_file.read(found)
    used = _used(found, machine, report)
    emulated = is_emulated()
    measured = [panel for folder in results for panel in measured_facts.load(folder, must_be)]
    gpus = []
    for gpu, counters in used:
        facts = measured_facts.find(measured, gpu.name, gpu.driver, emulated)
        account = take_apart(gpu, pid, counters, facts)
        gpus.append((account, rules.apply(account, facts)))
    return ProcessReport(found, emulated, report.age_s if report else None, tuple(gpus))


def _used(
    found: Process, machine: list[Gpu], report: CounterReport | None
) -> list[tuple[Gpu, list[Counters]]]:
    """Return the GPUs that a process is on, by NVML or its own counters, with these."""
    pid = found.pid
    listed = [gpu.uuid for gpu in machine if pid in (gpu.processes or {})]
    of_gpu: dict[str, list[Counters]] = {uuid: [] for uuid in listed}
    for uuid, counted in devices.placed(report, machine) if report else ():
        # One GPU by NVML leaves no doubt which it is.
        certain = uuid or (listed[0] if len(listed) == 1 else None)
        if certain is None:
            raise AllocmarkError(
                f"process {pid} does not say which GPU its counters of {counted.framework} are "
                "about, and there are several kinds of them here: show it one "
                "(CUDA_VISIBLE_DEVICES)"
            )
        of_gpu.setdefault(certain, []).append(counted)
    if not of_gpu:
        if report:
            raise AllocmarkError(f"process {pid} uses no GPU: it has not started CUDA so far")
        raise AllocmarkError(
            f"NVML lists process {pid} on no GPU: it uses none, or a container hides process ids "
            "(then call allocmark.watch() in the process)"
        )
    return [(gpu, of_gpu[gpu.uuid]) for gpu in machine if gpu.uuid in of_gpu]
