"""All GPUs read at once: the bytes on each, and which of them hold a context of this process."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from allocmark.experiments.core.recorder import Recorder
from allocmark.machine.nvml import open_card, processes_on, visible_cards
from allocmark.meters.memory import CONTEXT_STATE, MemoryMeters, Reading, context_exists, settled
from allocmark.schema.device_meters import METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis, Figure
from allocmark.system.errors import NoGpuError

NVML_LIST = "nvml process list"
FROM_NOTHING = (NVML_PROCESS, NVML_DEVICE)
"""The meters where a process starts without a context: cudaMemGetInfo cannot be asked before."""
_NO_LISTS = "NVML does not list processes here"
_HIDDEN = "NVML does not list this process on any GPU: a container hides its process id"
_NO_START = "it could not be asked before this GPU held a context of the process"
_DISTURBED = "another process on this GPU changed what it holds meanwhile"
_LESS = "less is in use than before: something else on this GPU gave memory back"

Cell = tuple[Mapping[str, Axis], Mapping[str, str]]
"""Axes, and a mapping of metric to unit."""


def cards() -> list[str]:
    """Return the UUIDs of the GPUs that CUDA sees, in its order; none where there is no driver."""
    try:
        return visible_cards()
    except NoGpuError:
        return []


@dataclass(frozen=True, slots=True)
class Shown:
    """One GPU at one moment: bytes by meter since the start, or the reason why not.

    `context` is 1 where the process holds the primary context, `listed` where NVML lists it.
    """

    added: Mapping[str, int | str]
    context: int
    listed: int | str

    def to_json(self) -> dict[str, Any]:
        """Return plain data, to leave a fork with."""
        return asdict(self)


class Cards:
    """The meters of all GPUs. `seen` are the indexes of those that CUDA sees here, in its order.

    Raises `NoGpuError` where NVML lacks one of them.
    """

    def __init__(self, uuids: Sequence[str], seen: Sequence[int]) -> None:
        self._uuids = uuids
        self._ordinals = [seen.index(g) if g in seen else None for g in range(len(uuids))]
        self._meters = [
            MemoryMeters(ordinal, uuid) for ordinal, uuid in zip(self._ordinals, uuids, strict=True)
        ]
        self.start()

    def start(self) -> None:
        """Count from here."""
        self._first = [settled(meters) for meters in self._meters]
        self._neighbours = [meters.neighbours() for meters in self._meters]

    def total_bytes(self) -> list[int]:
        """Return the whole memory of each GPU."""
        opened = [open_card(uuid) for uuid in self._uuids]
        return [int(nvml.nvmlDeviceGetMemoryInfo(handle).total) for nvml, handle in opened]

    def read(self) -> list[Shown]:
        """Return what each GPU shows."""
        contexts = [ordinal is not None and context_exists(ordinal) for ordinal in self._ordinals]
        listed = self._listed(contexts)
        return [
            Shown(self._added(gpu, holds), int(holds), listed[gpu])
            for gpu, holds in enumerate(contexts)
        ]

    def _added(self, gpu: int, holds_context: bool) -> dict[str, int | str]:
        meters = self._meters[gpu]
        now, calm = meters.read(), meters.neighbours() == self._neighbours[gpu]
        added: dict[str, int | str] = {}
        for meter in METERS:
            told = _difference(meter, self._first[gpu], now, holds_context)
            if told is None:
                told = meters.why(meter) or "not read"
            if meter != NVML_PROCESS and not calm and not isinstance(told, str):
                told = _DISTURBED
            added[meter] = told
        return added

    def _listed(self, contexts: Sequence[bool]) -> list[int | str]:
        """Return on which GPUs NVML lists this process."""
        found = [processes_on(*open_card(uuid)) for uuid in self._uuids]
        listed = [None if one is None else int(os.getpid() in one) for one in found]
        if any(contexts) and not any(listed):
            return [_NO_LISTS if one is None else _HIDDEN for one in listed]
        return [_NO_LISTS if one is None else one for one in listed]


def _difference(meter: str, first: Reading, now: Reading, holds_context: bool) -> int | str | None:
    """Return what a meter shows more, the reason why not, or None where the meter knows that."""
    before, after = first[meter], now[meter]
    if meter == NVML_PROCESS:
        # NVML lists a process where it holds a context; without one it holds nothing.
        before, after = before or 0, after if after is not None or holds_context else 0
    if after is None:
        return None
    if before is None:
        return _NO_START
    return after - before if after >= before else _LESS


def send(
    prefix: str,
    shown: Sequence[Shown],
    axes: Mapping[str, Axis],
    recorder: Recorder,
    meters: Collection[str] = FROM_NOTHING,
) -> None:
    """Send ``<prefix>_bytes``, ``<prefix>_context`` and ``<prefix>_listed`` of each GPU."""
    for gpu, one in enumerate(shown):
        place: dict[str, Axis] = {**axes, "gpu": gpu}
        for meter in meters:
            metered: dict[str, Axis] = {**place, "meter": meter}
            tell(f"{prefix}_bytes", "bytes", meter, metered, one.added[meter], recorder)
        exact = (("context", CONTEXT_STATE, one.context), ("listed", NVML_LIST, one.listed))
        for what, meter, told in exact:
            given: Any = {"reason": told} if isinstance(told, str) else {"value": told}
            figure = Figure(f"{prefix}_{what}", "count", "exact", meter, place, **given)
            recorder.figure(figure)


def tell(
    metric: str,
    unit: str,
    meter: str,
    axes: Mapping[str, Axis],
    told: float | str,
    recorder: Recorder,
) -> None:
    """Send a sampled figure with its value, or the reason why there is none."""
    given: Any = {"reason": told} if isinstance(told, str) else {"value": told}
    recorder.figure(Figure(metric, unit, "sampled", meter, axes, **given))


def missing(expected: Iterable[Cell], why: str, recorder: Recorder) -> None:
    """Send why some cells are empty."""
    for axes, metrics in expected:
        for metric, unit in metrics.items():
            recorder.missing(metric, unit, why, axes)


def cells(
    prefix: str, gpus: int, axes: Mapping[str, Axis], meters: Collection[str] = FROM_NOTHING
) -> Iterator[Cell]:
    """Yield the cells that `send` fills."""
    for gpu in range(gpus):
        for meter in meters:
            yield {**axes, "gpu": gpu, "meter": meter}, {f"{prefix}_bytes": "bytes"}
        exact = {f"{prefix}_context": "count", f"{prefix}_listed": "count"}
        yield {**axes, "gpu": gpu}, exact
