"""How far the model of the driver's pool is from real programs: ``allocmark dev pool-accuracy``."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

from allocmark.allocators.torch_caching import DRIVER_POOL
from allocmark.recording.importers import reader
from allocmark.replays.driver_pool import FITTED, MARGIN
from allocmark.replays.run import ReplayOptions, replay
from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.metrics import replay_agreement as metrics
from allocmark.system.errors import AllocmarkError
from allocmark.tools.accuracy.docs_page import put
from allocmark.workloads import trace_file

BEGIN = "<!-- made by: allocmark dev pool-accuracy -->\n"
_MB = 10**6


@dataclass(frozen=True, slots=True)
class PoolAccuracy:
    """One program: peaks of reserved memory under torch-async, bytes."""

    program: str
    real: tuple[float, ...]
    """Every real run on the GPU."""
    gpu_replay: float | None
    emulated: float

    @property
    def fitted(self) -> bool:
        """Whether the model was fitted to it."""
        return self.program in FITTED

    @property
    def difference(self) -> float:
        """The emulated replay over the median of the real runs, less 1."""
        return self.emulated / statistics.median(self.real) - 1

    @property
    def holds(self) -> bool:
        """Whether every real run is in the interval that the answer gives."""
        low, high = MARGIN.interval(int(self.emulated))
        return all(low <= peak <= high for peak in self.real)


def found(results: Path, recordings: Path) -> list[PoolAccuracy]:
    """Replay every program that has real runs on record, by name.

    Of `recordings` and of those that the suite carries; where there is none, its document says what
    the emulated replay held when it was measured.
    """
    traces = {path.name.removesuffix(trace_file.SUFFIX): path for path in _traces(recordings)}
    held = []
    for path in sorted(results.rglob(f"{metrics.EXPERIMENT}.*{documents.SUFFIX}")):
        document = documents.read(path)
        real = _samples(document, metrics.REAL_PEAK_RESERVED_BYTES.name)
        then = _samples(document, metrics.EMULATED_REPLAY_PEAK_RESERVED_BYTES.name)
        gpu = _samples(document, metrics.GPU_REPLAY_PEAK_RESERVED_BYTES.name)
        trace = traces.get(document.subject)
        if real and (trace or then):
            emulated = replayed_peak(trace) if trace else then[0]
            median = statistics.median(gpu) if gpu else None
            held.append(PoolAccuracy(document.subject, real, median, emulated))
    return sorted(held, key=lambda one: one.program)


def replayed_peak(trace: Path) -> int:
    """Return the peak of reserved bytes of a recording under torch-async on the emulated driver.

    Raises `AllocmarkError` where it cannot be replayed.
    """
    recording = replace(reader.read(trace), environment={})
    answer = replay(recording, ReplayOptions([DRIVER_POOL], search=False, emulated=True))
    one = next(each for each in answer.settings if each.name == DRIVER_POOL)
    peak = one.figure("peak_reserved_bytes")
    if peak is None:
        raise AllocmarkError(f"{trace.name} cannot be replayed: {one.reason}")
    return peak


def section(programs: list[PoolAccuracy]) -> str:
    """Return the table, and the largest difference of either part."""
    if not programs:
        raise AllocmarkError("no program has both real runs under torch-async and a replay")
    lines = [
        "| program | model | real runs, MB | replay on the GPU | without a GPU | in the interval |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for one in programs:
        low, high = (f"{bound / _MB:,.0f}" for bound in (min(one.real), max(one.real)))
        on_gpu = one.gpu_replay / statistics.median(one.real) - 1 if one.gpu_replay else None
        cells = (
            one.program,
            "fitted" if one.fitted else "held out",
            low if low == high else f"{low} to {high}",
            "" if on_gpu is None else f"{on_gpu:+.1%}",
            f"{one.difference:+.1%}",
            "yes" if one.holds else "no",
        )
        lines.append(f"| {' | '.join(cells)} |")
    parts = []
    for part, fitted in (("fitted", True), ("held out", False)):
        own = [abs(one.difference) for one in programs if one.fitted is fitted]
        if own:
            parts.append(f"{part}: {max(own):.1%} at most, {statistics.mean(own):.1%} on average")
    return "\n".join([*lines, "", f"{'; '.join(parts)}."]) + "\n"


def renew(page: Path, programs: list[PoolAccuracy]) -> None:
    """Put the table into a page. Raises `AllocmarkError` where it has no place for it."""
    put(page, BEGIN, section(programs))


def _traces(recordings: Path) -> Iterator[Path]:
    carried = Path(str(files("allocmark.workloads") / "recorded"))
    for folder in (carried, recordings):
        yield from sorted(folder.glob(f"*{trace_file.SUFFIX}"))


def _samples(document: Document, metric: str) -> tuple[float, ...]:
    wanted: Mapping[str, str] = {"allocator": DRIVER_POOL}
    for figure in document.figures:
        if figure.metric == metric and figure.axes == wanted and figure.value is not None:
            return tuple(figure.samples)
    return ()
