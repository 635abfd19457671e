"""A recorded job replayed under one setting; also the vector of `fragmentation`."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import metric

EXPERIMENT = "replay_recording"
_sampled = partial(metric, EXPERIMENT, "sampled")

WITHIN, SEARCH = "the capacity asked for", "the smallest capacity"
"""Stages whose failures are the reasons of ``completes`` and of the smallest capacity."""
RECORDED = "the memory of the recorded run"
"""Stage of the run that is held against the recorded one."""
ROOM = "room"
"""Axis of figures in a capacity: the one that is answered for, or that of the recorded run."""
ANSWERED, RECORDED_ROOM = "answered", "recorded"
DRIVER_CALLS, CAPACITY_DRIVER_CALLS = "driver_calls", "capacity_driver_calls"
CAPACITY_MEMORY = "capacity_memory"
ADDRESS_MAP, ADDRESS_CELLS = "address_map", "address_cells"
MEMORY_TRACKS = "memory_tracks"
"""Series of bytes by stream and pool, a row for each of these at each event of the address map."""
MAPS = SEGMENTS, BLOCKS = ("segments", "blocks")
"""Series of torch's segments and blocks, axis ``at``: where the run failed, or at its peak."""
FAILURE, PEAK = "failure", "peak"

SMALLEST_CAPACITY_BYTES = _sampled(
    "smallest_capacity_bytes", "least memory, context apart, in which it completes"
)
RESOLUTION_BYTES = _sampled("resolution_bytes", "step of that search")
PEAK_SEGMENTS = _sampled("peak_segments", "most segments at once, without a limit")
CAPACITY_BYTES = _sampled("capacity_bytes", "the capacity of the run that the rest is about", ROOM)
COMPLETES = _sampled("completes", "1 where it completes in it", ROOM, unit="bool", better="more")
CAPACITY_PEAK_RESERVED_BYTES = _sampled("capacity_peak_reserved_bytes", "most reserved bytes", ROOM)
CAPACITY_PEAK_SEGMENTS = _sampled("capacity_peak_segments", "most segments at once", ROOM)
CAPACITY_RETRIES = _sampled("capacity_retries", "retries", ROOM)
CAPACITY_DRIVER_ALLOCS = _sampled(
    "capacity_driver_allocs", "requests for memory to the driver", ROOM, unit="calls"
)
CAPACITY_DRIVER_FREES = _sampled(
    "capacity_driver_frees", "releases to the driver", ROOM, unit="calls"
)
FAILED_EVENT = _sampled("failed_event", "the event that failed, if one did", ROOM)
