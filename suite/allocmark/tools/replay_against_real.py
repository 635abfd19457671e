"""Replays held against real runs: ``allocmark dev replay-against-real --results DIR``.

Each of the suite's programs is recorded once under torch's defaults, then really run under each
other setting, and its recording is replayed under the same: on this machine's GPU, and on the
emulated driver, which has to give the same answer on a machine without a GPU. One document for each
program: `allocmark.schema.metrics.replay_agreement`.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from allocmark import __version__
from allocmark.allocators.torch_caching import NATIVE
from allocmark.machine.conditions import read_conditions
from allocmark.machine.stack import Stack, read_stack
from allocmark.recording.importers import reader
from allocmark.replays.run import ReplayOptions, replay
from allocmark.schema import documents
from allocmark.schema.documents import Document, Failure
from allocmark.schema.figure import Figure
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import replay_agreement as metrics
from allocmark.schema.run_state import now
from allocmark.system.errors import AllocmarkError
from allocmark.tools import record_workloads
from allocmark.workloads import trace_file
from allocmark.workloads.programs import NAMES

SETTINGS = (
    *("torch-expandable", "torch-split64", "torch-split256", "torch-roundup4"),
    *("torch-expandable-roundup4", "torch-async"),
)
_REPLAYED = {
    "gpu": (metrics.GPU_REPLAY_PEAK_RESERVED_BYTES, metrics.GPU_DIFFERENCE_RATIO),
    "emulated": (metrics.EMULATED_REPLAY_PEAK_RESERVED_BYTES, metrics.EMULATED_DIFFERENCE_RATIO),
}
_MOST_JOBS = 8
_REAL = "real"
Peaks = dict[str, dict[str, int | str]]
"""By setting, then ``real``, ``gpu`` or ``emulated``: bytes, or the reason why there are none."""


def compare(program: str, folder: Path, steps: int | None, jobs: int) -> Peaks:
    """Record, run and replay one program; every failure becomes a reason."""
    record_workloads.run(program, NATIVE, folder, steps)
    file = folder / f"{program}{trace_file.SUFFIX}"
    peaks: Peaks = {setting: {} for setting in (NATIVE, *SETTINGS)}

    def run(setting: str) -> int | str:
        try:
            if setting != NATIVE:
                record_workloads.run(program, setting, folder, steps)
            counted = json.loads((folder / f"{program}.{setting}.json").read_text())
            return int(counted["peak_reserved_bytes"])
        except AllocmarkError as error:
            return str(error)

    with ThreadPoolExecutor(jobs) as pool:
        for found, real in zip(peaks.values(), pool.map(run, peaks), strict=True):
            found[_REAL] = real
    recording = reader.read(file)
    for where in _REPLAYED:
        options = ReplayOptions(SETTINGS, emulated=where == "emulated", search=False, jobs=jobs)
        try:
            answers = replay(recording, options).settings
        except AllocmarkError as error:  # No compiler for the emulated driver, say.
            for found in peaks.values():
                found[where] = str(error)
            continue
        for answer in answers:
            peak = answer.figure("peak_reserved_bytes")
            peaks[answer.name][where] = answer.reason if peak is None else peak
    return peaks


def figures(peaks: Peaks) -> list[Figure]:
    """Return the cells of one program."""
    made = []
    for setting, found in peaks.items():
        axes = {"allocator": setting}
        real = found.get(_REAL, "it was not run")
        meter = "allocator counters"
        made.append(_figure(metrics.REAL_PEAK_RESERVED_BYTES, meter, axes, real))
        for where, (peak, difference) in _REPLAYED.items():
            replayed = found.get(where, "it was not replayed")
            made.append(_figure(peak, f"{meter}, replay, {where}", axes, replayed))
            if isinstance(replayed, str) or isinstance(real, str):
                off: float | str = replayed if isinstance(replayed, str) else real
            else:
                off = replayed / real - 1
            made.append(_figure(difference, f"{meter}, replay, {where}", axes, off))
    return made


def _figure(metric: Metric, meter: str, axes: Mapping[str, str], value: float | str) -> Figure:
    if isinstance(value, str):
        return metric.missing(value, axes, kind=metric.kind)
    return metric.figure(meter, axes, value, [value])


def measure_all(
    results: Path,
    programs: Sequence[str] | None = None,
    steps: int | None = None,
    jobs: int | None = None,
) -> Iterator[str]:
    """Compare each program (all, unless named), write its document, and yield a line about it."""
    stack, run = read_stack("torch"), now()
    jobs = jobs or max(1, min(_MOST_JOBS, (os.cpu_count() or 1) // 2))
    for program in programs or NAMES:
        document = _measure(program, stack, run, steps, jobs)
        path = documents.path_of(
            results, stack.machine, stack.name, "full", metrics.EXPERIMENT, program
        )
        documents.write(path, document)
        failures = [failure.reason for failure in document.failures]
        yield f"{path}: {failures[0] if failures else _summary(document.figures)}"


def _measure(program: str, stack: Stack, run: str, steps: int | None, jobs: int) -> Document:
    began, started = time.monotonic(), now()
    before = read_conditions(0).to_json()
    failures = []
    found: list[Figure] = []
    with tempfile.TemporaryDirectory() as scratch:
        try:
            found = figures(compare(program, Path(scratch), steps, jobs))
        except AllocmarkError as error:
            failures.append(Failure("record", str(error)))
    return Document(
        probe=metrics.EXPERIMENT,
        subject=program,
        profile="full",
        run=run,
        started=started,
        seconds=round(time.monotonic() - began, 3),
        command=f"allocmark dev replay-against-real --program {program}",
        suite=__version__,
        emulated=stack.emulated,
        stack=stack.to_json(),
        conditions={"before": before, "after": read_conditions(0).to_json()},
        figures=found,
        failures=failures,
    )


def _summary(found: Sequence[Figure]) -> str:
    words = [
        f"{figure.axes['allocator']} " + ("-" if figure.value is None else f"{figure.value:+.2%}")
        for figure in found
        if figure.metric == metrics.EMULATED_DIFFERENCE_RATIO.name
    ]
    return "emulated replay less real run: " + ", ".join(words)
