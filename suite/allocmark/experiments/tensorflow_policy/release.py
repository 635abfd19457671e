"""Whether BFC releases regions that are wholly free when the next request would not fit.

`BFCAllocator::DeallocateFreeRegions` (xla/tsl/framework/bfc_allocator.cc): where the driver refuses
another region, regions without a live chunk are freed and the request is tried once more. It is on
for GPUs by default; TF_ENABLE_GPU_GARBAGE_COLLECTION=false turns it off.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from allocmark.allocators.tensorflow_gpu import LIMIT
from allocmark.cuda import runtime
from allocmark.experiments.core.recorder import Cell, Recorder
from allocmark.experiments.shared.framework_programs import in_one_line
from allocmark.experiments.tensorflow_policy.program_part import (
    RAISED,
    TensorFlowPart,
    device_bytes,
    error_of,
)
from allocmark.meters.memory import used_bytes
from allocmark.schema.device_meters import MEM_GET_INFO
from allocmark.schema.figure import Axis
from allocmark.schema.metrics import tensorflow_policy as metrics
from allocmark.system.units import MIB

ROOM_BYTES = 2048 * MIB
"""What the program may take: the memory_limit of `tf-limit`, else what a ballast leaves."""
KEPT_BYTES, SMALL_BYTES, SMALL_TENSORS = 8 * MIB, 50 * MIB, 24
"""One tensor stays alive, 1,200 MiB are dropped."""
REQUEST_BYTES = 1500 * MIB
"""It fits in the room only where what was dropped is released, or is one region."""
OFF = {"TF_ENABLE_GPU_GARBAGE_COLLECTION": "false"}
_CELL = (
    metrics.RELEASE_DROPPED_BYTES,
    metrics.RELEASE_REQUEST_BYTES,
    metrics.RELEASE_FAILED,
    metrics.RELEASED_BYTES,
)
_FAILED = "the request failed: TensorFlow holds what it held"


class Release(TensorFlowPart):
    """Many tensors dropped but one, then a request that the rest of the room cannot serve.

    Parameter ``collection``: `metrics.DEFAULT` or `metrics.OFF`.
    """

    name = "release"

    def environment(self) -> Mapping[str, str]:
        off = OFF if self.parameters["collection"] == metrics.OFF else {}
        return {**super().environment(), **off}

    def measure(self, recorder: Recorder) -> None:
        program, device = self.program, self.device
        axes: Mapping[str, Axis] = {"collection": self.parameters["collection"]}
        with recorder.stage("release"):
            program.list_devices()
            if self.subject == LIMIT:
                program.set_limits([ROOM_BYTES])
                program.start()
            else:
                # A session's options set the mode, and a failure does not wait ten seconds.
                program.create_session(device_bytes(device), retry=False)
                program.start()
                _leave(ROOM_BYTES, device)
            program.take([KEPT_BYTES, *[SMALL_BYTES] * SMALL_TENSORS])
            del program.tensors[1:]
            dropped = used_bytes(device)
            error = error_of(lambda: program.take([REQUEST_BYTES]))
            released: int | str = dropped + REQUEST_BYTES - used_bytes(device)
            if error is not None:
                recorder.error(f"release, {axes['collection']}", in_one_line(error))
                released = _FAILED
            elif self.subject == LIMIT or dropped == used_bytes(device):
                released = 0  # The tensor lies in the region that was there.
            values = SMALL_BYTES * SMALL_TENSORS, REQUEST_BYTES, int(error is not None), released
            meters = RAISED, RAISED, RAISED, MEM_GET_INFO
            for metric, meter, value in zip(_CELL, meters, values, strict=True):
                recorder.reading(metric, meter, axes, value)

    def cells(self) -> Iterator[Cell]:
        yield {"collection": self.parameters["collection"]}, _CELL


def _leave(room_bytes: int, device: int) -> None:
    """Fill the GPU until so much is free, by the driver's own account: NVML's total is larger than
    what can be had. The driver maps in steps of 2 MiB."""
    runtime.set_device(device)
    spare = runtime.memory_info()[0] - room_bytes
    if spare > 0:
        runtime.malloc(spare // (2 * MIB) * 2 * MIB)
