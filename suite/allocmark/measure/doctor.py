"""Whether this machine can give figures worth trusting, and what will be left out and why."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from allocmark.allocators import registry
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES
from allocmark.experiments.shared.worker_process import WorkerProcess
from allocmark.machine.conditions import Conditions, read_conditions
from allocmark.machine.frameworks import TRACKED
from allocmark.machine.stack import Stack, installed, lacks_cuda, read_stack
from allocmark.measure.trial import why_not
from allocmark.meters.memory import MemoryMeters
from allocmark.meters.timing import library
from allocmark.schema.device_meters import NVML_PROCESS
from allocmark.system.compiler import compiler
from allocmark.system.errors import (
    EXIT_BAD_INPUT,
    EXIT_FINE,
    EXIT_UNCLEAR,
    AllocmarkError,
    NoGpuError,
    NotMeasurableError,
)
from allocmark.system.interpreters import interpreter, is_this, variable
from allocmark.system.units import GIB, MIB, format_bytes

Level = Literal["fine", "note", "skip", "unclear", "stop"]
"""``fine``; ``note``: good to know; ``skip``: something is left out; ``unclear``: figures can be
had but not trusted; ``stop``: nothing can be measured."""

BUSY_PERCENT = 5
"""An idle GPU shows 0; a desktop or a neighbour more."""
SMALL_FREE_BYTES = 4 * GIB
"""Below this, most workloads do not fit at their full scale."""
SMALL_DISK_BYTES = 100 * MIB
"""A full run writes some ten megabytes."""
BUSY_HOST = 0.5
"""Load for each CPU above which host times wait for other programs."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at: a sentence for people, and what is left out because of it."""

    check: str
    level: Level
    sentence: str
    skipped: Sequence[str] = ()


def examine(results: Path, device: int = 0) -> list[Finding]:
    """Look at everything a run depends on. Creates short-lived contexts on the GPU, one at a time.

    `results` is the folder that a run would write to. Never raises: what is wrong is a finding.
    """
    findings: list[Finding] = []
    try:
        stack = read_stack("auto", device)
    except AllocmarkError as error:
        findings.append(Finding("GPU", "stop", error.message))
    else:
        findings.append(_of_stack(stack))
        conditions = read_conditions(device)
        findings += _of_gpu(conditions, stack)
        findings += _of_modes(conditions)
        findings += _of_context(device)
        findings += _of_host(conditions)
    has_gpu = all(finding.level != "stop" for finding in findings)
    findings += [*_of_frameworks(has_gpu), *_of_tools(), *_of_results(results)]
    return findings


def disturbances(device: int = 0) -> list[str]:
    """Return a sentence for each thing on the GPU that makes figures untrustworthy; cheap.

    Never raises: a run is not to end because nobody can tell.
    """
    try:
        found = list(_of_gpu(read_conditions(device), read_stack("auto", device)))
    except AllocmarkError:
        return []
    return [
        f"figures can be had but not trusted: {finding.sentence}"
        for finding in found
        if finding.level == "unclear"
    ]


def exit_code(findings: Sequence[Finding]) -> int:
    """Return 2 if nothing can be measured, 3 if figures could not be trusted, else 0."""
    levels = {finding.level for finding in findings}
    if "stop" in levels:
        return EXIT_BAD_INPUT
    return EXIT_UNCLEAR if "unclear" in levels else EXIT_FINE


def _of_stack(stack: Stack) -> Finding:
    size = format_bytes(stack.usable_bytes)
    sentence = f"{stack.gpu}, {size}, driver {stack.driver}, CUDA {stack.cuda}"
    if stack.emulated:
        return Finding(
            "GPU",
            "note",
            f"{sentence}: an emulated driver; bytes and counts are the real allocators', "
            "times of driver calls and context figures come from a profile",
            ("verdicts that rest on times or on the context",),
        )
    return Finding("GPU", "fine", sentence)


def _of_gpu(conditions: Conditions, stack: Stack) -> Iterator[Finding]:
    """Look at who else uses the GPU, and at its clocks."""
    busy = conditions.gpu_utilization_percent
    if conditions.other_processes:
        held = conditions.other_process_bytes
        size = "an unknown size" if held is None else format_bytes(held)
        yield Finding(
            "other processes",
            "unclear",
            f"other processes on the GPU ({conditions.other_processes}) hold {size}: end them, or "
            "measure on another GPU (CUDA_VISIBLE_DEVICES)",
        )
    elif busy is not None and busy > BUSY_PERCENT:
        yield Finding(
            "other processes",
            "unclear",
            f"the GPU is {busy} % busy, though NVML lists no process (it may be hidden by a "
            "container): measure when it is idle",
        )
    else:
        yield Finding("other processes", "fine", "nobody else uses the GPU")
    if conditions.device_used_bytes is not None:
        free = stack.total_bytes - conditions.device_used_bytes  # NVML counts the reserve as used.
        if free < SMALL_FREE_BYTES:
            yield Finding(
                "free memory",
                "skip",
                f"only {format_bytes(max(free, 0))} of the GPU are free",
                ("sizes and workloads that do not fit: each such cell says so",),
            )
    if conditions.slowed_by is None:
        yield Finding("clocks", "note", "the driver does not say whether it slows the GPU down")
    elif conditions.slowed_by:
        reasons = ", ".join(conditions.slowed_by)
        yield Finding("clocks", "unclear", f"the GPU is slowed down ({reasons}): wait or cool it")
    else:
        yield Finding("clocks", "fine", "nothing slows the GPU down")


def _of_modes(conditions: Conditions) -> Iterator[Finding]:
    """Look at modes that change what is measured."""
    if conditions.mig:
        yield Finding(
            "MIG",
            "unclear",
            "the GPU is divided (MIG): figures are those of an instance, and its neighbours share "
            "the memory's bandwidth",
        )
    if conditions.mps:
        yield Finding(
            "MPS",
            "unclear",
            "a multi-process service (MPS) is running: clients share its context; stop it with "
            "`echo quit | nvidia-cuda-mps-control`",
        )
    if conditions.wddm:
        yield Finding(
            "driver model",
            "unclear",
            "the driver runs under WDDM: Windows moves device memory and hides what a process has",
            (f"bytes by the meter {NVML_PROCESS}",),
        )
    match conditions.compute_mode:
        case "prohibited":
            yield Finding(
                "compute mode", "stop", "the GPU takes no programs: nvidia-smi --compute-mode=0"
            )
        case "exclusive process" | "exclusive thread":
            yield Finding(
                "compute mode",
                "skip",
                "the GPU takes one process at a time: nvidia-smi --compute-mode=0",
                ("context: several processes", "capacity (it needs a neighbour process)"),
            )
    if conditions.persistence is False:
        yield Finding(
            "persistence",
            "note",
            "persistence mode is off: the driver starts anew for the first process after a pause, "
            "which therefore takes longer (nvidia-smi -pm 1)",
        )


def _of_context(device: int) -> Iterator[Finding]:
    """Create a context in a process of its own, allocate, and see what NVML tells of it."""
    command = [sys.executable, "-m", "allocmark.measure.context_holder", str(device)]
    wrong = "no context can be created"
    try:
        with WorkerProcess(command) as holder:
            holder.answer()
            wrong = "a context has no memory that can be used"
            meters = MemoryMeters(device)
            held, why = meters.read(holder.pid)[NVML_PROCESS], meters.why(NVML_PROCESS)
            holder.answer()
    except (NotMeasurableError, NoGpuError) as error:
        yield Finding("CUDA", "stop", f"{wrong}: {error}")
        return
    yield Finding("CUDA", "fine", "a context can be created, and memory allocated in it")
    if held is None:
        yield Finding(
            "process memory",
            "skip",
            f"{why}: what the whole GPU has in use is read instead",
            (f"bytes by the meter {NVML_PROCESS}",),
        )
    else:
        yield Finding("process memory", "fine", "NVML tells what each process holds")


def _of_host(conditions: Conditions) -> Iterator[Finding]:
    count, load = conditions.cpu_count, conditions.load_average
    if count and load is not None and load > BUSY_HOST * count:
        yield Finding(
            "host",
            "note",  # In a container it may be the load of a larger machine.
            f"the host is busy (load {load:.1f} on {count} CPUs): times of the host will spread",
        )
    else:
        yield Finding("host", "fine", f"{count} CPUs, load {load}")
    if conditions.governor == "powersave":
        yield Finding(
            "CPU clock",
            "note",
            "the CPU's governor is powersave: short times may spread (cpupower frequency-set "
            "-g performance)",
        )


def _of_frameworks(has_gpu: bool) -> Iterator[Finding]:
    """Look at each framework that something here needs, in its interpreter."""
    needed: dict[str, list[str]] = {}
    allocators = list(registry().values())
    for allocator in allocators:
        needed.setdefault(allocator.framework, []).append(allocator.name)
    context = catalog.experiment("context")
    for subject in context.subjects(allocators, PROFILES["full"]):
        framework = context.framework(subject, allocators)
        needed.setdefault(framework, []).append(f"context of {subject}")
    for framework, names in needed.items():
        if framework != "cuda":
            yield _of_framework(framework, names, has_gpu and framework in TRACKED)


def _of_framework(framework: str, names: Sequence[str], tried: bool) -> Finding:
    """Return what there is of a framework; with `tried` it is made to use the GPU once."""
    try:
        found = installed(framework)
    except AllocmarkError as error:
        return Finding(framework, "skip", str(error), names)
    version = found.get(framework)
    if version is None:
        sentence = f"{framework} is not installed here"
        if framework in TRACKED:
            sentence += f": install it, or let {variable(framework)} name a Python that has it"
        return Finding(framework, "skip", sentence, names)
    sentence = f"{framework} {version}"
    if lacks_cuda(framework, found):
        sentence += " is a build without CUDA: install one for CUDA"
        return Finding(framework, "skip", sentence, names)
    if cuda := found.get(f"{framework} cuda"):
        sentence += f" for CUDA {cuda}"
    if not is_this(framework):
        sentence += f", in {interpreter(framework)}"
    if tried and (reason := why_not(framework)):
        return Finding(framework, "skip", f"{sentence}, cannot use the GPU: {reason}", names)
    return Finding(framework, "fine", sentence)


def _of_tools() -> Iterator[Finding]:
    try:
        library()
        yield Finding("timing loop", "fine", "the timing loop could be built")
    except NotMeasurableError as error:
        skipped = ("latency", "streams")  # Both judge by it which readings are quiet.
        yield Finding("timing loop", "skip", str(error), skipped)
    try:
        compiler("c++")
    except NotMeasurableError as error:
        check = "latency: the check of the timing loop by a separate program part"
        yield Finding("C++ compiler", "skip", str(error), (check,))
    if installed()["asv"] is None:
        yield Finding(
            "asv",
            "skip",
            "asv is not installed here: pip install asv",
            ("tracking over time: only allocmark run --experiment measures",),
        )


def _of_results(results: Path) -> Iterator[Finding]:
    """See whether documents can be saved, where they would be."""
    folder = next(path for path in (results, *results.absolute().parents) if path.exists())
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".writing-") as file:
            file.write(bytes(os.sysconf("SC_PAGE_SIZE")))
            file.flush()
            os.fsync(file.fileno())
        free = shutil.disk_usage(folder).free
    except OSError as error:
        reason = error.strerror or str(error)
        yield Finding("results", "stop", f"{results} cannot be written ({reason})")
        return
    if free < SMALL_DISK_BYTES:
        sentence = f"only {format_bytes(free)} of disk are free for {results}: a run may not fit"
        yield Finding("results", "unclear", sentence)
    else:
        yield Finding("results", "fine", f"{results} can be written")
