"""torch's segments and blocks at one event of a replay, as columns of a series.

Series ``segments``: address, size, stream, pool (its number in the trace, 0 for the common one and
for a released one). Series ``blocks``: address, size, requested, state (0
free, 1 live, 2 freed but another stream may still use it), block (of the trace, -1 for none).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allocmark.allocators.torch_caching import import_torch
from allocmark.experiments.core.recorder import Recorder
from allocmark.schema.figure import Axis
from allocmark.schema.metrics.recording import BLOCKS, SEGMENTS

_STATES = {"inactive": 0, "active_allocated": 1}
_WAITING = 2


def send(
    recorder: Recorder,
    held: Sequence[int | None],
    pools: Mapping[tuple[int, int], int],
    device: int,
    axes: Mapping[str, Axis],
) -> None:
    """Send the map.

    `held` is the address of each block of the trace that is alive, `pools` the number of each
    private pool that is, by its id.
    """
    block_at = {address: block for block, address in enumerate(held) if address is not None}
    segments: list[tuple[int, int, int, int]] = []
    blocks: list[tuple[int, int, int, int, int]] = []
    streams: dict[int, int] = {0: 0}
    for segment in import_torch().cuda.memory_snapshot():
        if segment["device"] != device:
            continue
        stream = streams.setdefault(segment["stream"], len(streams))
        at = segment["address"]
        pool = pools.get(tuple(segment.get("segment_pool_id", ())), 0)
        segments.append((at, segment["total_size"], stream, pool))
        for block in segment["blocks"]:
            size, state = block["size"], _STATES.get(block["state"], _WAITING)
            requested = block.get("requested_size", size) if state else 0
            blocks.append((at, size, requested, state, block_at.get(at, -1) if state else -1))
            at += size
    _series(recorder, SEGMENTS, axes, ("address", "size", "stream", "pool"), segments)
    _series(recorder, BLOCKS, axes, ("address", "size", "requested", "state", "block"), blocks)


def _series(
    recorder: Recorder,
    name: str,
    axes: Mapping[str, Axis],
    columns: Sequence[str],
    rows: Sequence[tuple[int, ...]],
) -> None:
    values = list(zip(*rows, strict=True)) if rows else [()] * len(columns)
    recorder.series(name, axes, **dict(zip(columns, values, strict=True)))
