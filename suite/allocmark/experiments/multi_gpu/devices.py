"""All GPUs read at once: the bytes on each, and which of them hold a context of this process."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.machine.nvml import open_by_uuid, processes_on, visible_devices
from allocmark.meters.memory import CONTEXT_STATE, MemoryMeters, Reading, context_exists, settled
from allocmark.schema.device_meters import METERS, NVML_DEVICE, NVML_PROCESS
from allocmark.schema.figure import Axis
from allocmark.schema.metric import Metric
from allocmark.system.errors import NoGpuError

NVML_LIST = "nvml process list"
FROM_NOTHING = (NVML_PROCESS, NVML_DEVICE)
"""The meters where a process starts without a context: cudaMemGetInfo cannot be asked before."""
_NO_LISTS = "NVML does not list processes here"
_HIDDEN = "NVML does not list this process on any GPU: a container hides its process id"
_NO_START = "it could not be asked before this GPU held a context of the process"
_DISTURBED = "another process on this GPU changed what it holds meanwhile"
_LESS = "less is in use than before: something else on this GPU gave memory back"


def visible_uuids() -> list[str]:
    """Return the UUIDs of the GPUs that CUDA sees, in its order; none where there is no driver."""
    try:
        return visible_devices()
    except NoGpuError:
        return []


class DeviceState(NamedTuple):
    """One GPU at one moment: bytes by meter since the start, or the reason why not.

    `context` is 1 where the process holds the primary context, `listed` where NVML lists it. Out of
    a fork it comes as a list.
    """

    added: Mapping[str, int | str]
    context: int
    listed: int | str


class DeviceMetrics(NamedTuple):
    """The metrics of a `DeviceState`."""

    bytes: Metric
    context: Metric
    listed: Metric

    def cells(
        self, gpus: int, axes: Mapping[str, Axis], meters: Collection[str] = FROM_NOTHING
    ) -> Iterator[Cell]:
        """Yield the cells that `send` fills."""
        for gpu in range(gpus):
            for meter in meters:
                yield {**axes, "gpu": gpu, "meter": meter}, (self.bytes,)
            yield {**axes, "gpu": gpu}, (self.context, self.listed)

    def send(
        self,
        states: Sequence[DeviceState],
        axes: Mapping[str, Axis],
        recorder: Recorder,
        meters: Collection[str] = FROM_NOTHING,
    ) -> None:
        """Send the state of each GPU."""
        for gpu, (added, context, listed) in enumerate(states):
            place: dict[str, Axis] = {**axes, "gpu": gpu}
            for meter in meters:
                recorder.reading(self.bytes, meter, {**place, "meter": meter}, added[meter])
            recorder.reading(self.context, CONTEXT_STATE, place, context)
            recorder.reading(self.listed, NVML_LIST, place, listed)


class Devices:
    """The meters of all GPUs. `seen` are the indexes of those that CUDA sees here, in its order.

    Raises `NoGpuError` where NVML lacks one of them.
    """

    def __init__(self, uuids: Sequence[str], seen: Sequence[int]) -> None:
        self._uuids = uuids
        self._ordinals = [seen.index(g) if g in seen else None for g in range(len(uuids))]
        self._meters = [
            MemoryMeters(ordinal, uuid) for ordinal, uuid in zip(self._ordinals, uuids, strict=True)
        ]
        self._first = [settled(meters) for meters in self._meters]
        self._neighbours = [meters.neighbours() for meters in self._meters]

    def total_bytes(self) -> list[int]:
        """Return the whole memory of each GPU."""
        opened = [open_by_uuid(uuid) for uuid in self._uuids]
        return [int(nvml.nvmlDeviceGetMemoryInfo(handle).total) for nvml, handle in opened]

    def read(self) -> list[DeviceState]:
        """Return the state of each GPU; bytes count since this object was made."""
        contexts = [ordinal is not None and context_exists(ordinal) for ordinal in self._ordinals]
        listed = self._listed(contexts)
        return [
            DeviceState(self._added(gpu, holds), int(holds), listed[gpu])
            for gpu, holds in enumerate(contexts)
        ]

    def _added(self, gpu: int, holds_context: bool) -> dict[str, int | str]:
        meters = self._meters[gpu]
        now, calm = meters.read(), meters.neighbours() == self._neighbours[gpu]
        added: dict[str, int | str] = {}
        for meter in METERS:
            difference = _difference(meter, self._first[gpu], now, holds_context)
            if difference is None:
                difference = meters.why(meter) or "not read"
            if meter != NVML_PROCESS and not calm and not isinstance(difference, str):
                difference = _DISTURBED
            added[meter] = difference
        return added

    def _listed(self, contexts: Sequence[bool]) -> list[int | str]:
        """Return on which GPUs NVML lists this process."""
        found = [processes_on(*open_by_uuid(uuid)) for uuid in self._uuids]
        listed = [None if pids is None else int(os.getpid() in pids) for pids in found]
        if any(contexts) and not any(listed):
            return [_NO_LISTS if is_listed is None else _HIDDEN for is_listed in listed]
        return [_NO_LISTS if is_listed is None else is_listed for is_listed in listed]


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
