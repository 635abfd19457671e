"""A history turned into events: worked out by hand."""

from __future__ import annotations

import pytest

from allocmark.system.errors import AllocmarkError
from allocmark.workloads.event_trace import Op
from allocmark.workloads.history import SegmentOp, convert

SMALL = 2 << 20


def entry(action: str, addr: int, size: int = 0, stream: int = 0) -> dict[str, object]:
    return {"action": action, "addr": addr, "size": size, "stream": stream, "time_us": 0}


def test_events_and_segments_by_hand() -> None:
    trace, placement = convert(
        "t",
        [
            entry("segment_alloc", 0x1000000, SMALL),
            entry("alloc", 0x1000000, 100),
            entry("segment_alloc", 0x2000000, SMALL, stream=0xABC),
            entry("alloc", 0x2000000, 700, stream=0xABC),
            entry("free_requested", 0x1000000, 100),
            entry("alloc", 0x1000200, 5),
            entry("free_completed", 0x1000000, 100),
            entry("alloc", 0x1000000, 8),
            entry("free_requested", 0x2000000, 700, stream=0xABC),
            entry("free_completed", 0x2000000, 700, stream=0xABC),
            entry("segment_free", 0x2000000, SMALL, stream=0xABC),
            entry("oom", 0, 1 << 40),
            entry("snapshot", 0),
        ],
        origin={"gpu": "x"},
    )
    assert trace.op.tolist() == [Op.ALLOC] * 3 + [Op.FREE, Op.ALLOC, Op.FREE]
    assert trace.block.tolist() == [0, 1, 2, 0, 3, 1]
    assert trace.size.tolist() == [100, 700, 5, 0, 8, 0]
    assert trace.stream.tolist() == [0, 1, 0, 0, 0, 1]
    assert trace.origin == placement.origin == {"gpu": "x"}
    assert placement.op.tolist() == [SegmentOp.ALLOC, SegmentOp.ALLOC, SegmentOp.FREE]
    assert placement.event.tolist() == [0, 1, 6]
    assert placement.address.tolist() == [0x1000000, 0x2000000, 0x2000000]
    assert placement.stream.tolist() == [0, 1, 1]


def test_blocks_alive_before_come_first() -> None:
    before = {
        "address": 0x1000000,
        "total_size": SMALL,
        "stream": 0,
        "blocks": [
            {"address": 0x1000000, "requested_size": 40, "state": "active_allocated"},
            {"address": 0x1000200, "requested_size": 0, "state": "inactive"},
            {"address": 0x1000400, "requested_size": 9, "state": "active_pending_free"},
        ],
    }
    entries = [entry("free_completed", 0x1000400), entry("free_completed", 0x1000000)]
    trace, placement = convert("t", entries, [before])
    assert trace.op.tolist() == [Op.ALLOC, Op.ALLOC, Op.FREE, Op.FREE]
    assert trace.block.tolist() == [0, 1, 1, 0]
    assert trace.size.tolist() == [40, 9, 0, 0]
    assert placement.event.tolist() == [0]


def test_histories_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(AllocmarkError, match="event 0 a block is freed that was never allocated"):
        convert("t", [entry("free_completed", 1)])
    with pytest.raises(AllocmarkError, match="event 1 a live block is allocated again"):
        convert("t", [entry("alloc", 1, 8), entry("alloc", 1, 8)])
    with pytest.raises(AllocmarkError, match="more than 256 streams"):
        convert("t", [entry("alloc", 512 * s, 8, stream=s) for s in range(257)])


def test_an_empty_history_is_an_empty_trace() -> None:
    trace, placement = convert("t", [])
    assert len(trace) == len(placement) == 0
