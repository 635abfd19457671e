"""A moment taken apart: parts that add up, and who pins what, to the byte."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from allocmark.allocators.base import PoolKind
from allocmark.explain.account import take_apart
from allocmark.explain.counter_file import Counters
from allocmark.explain.devices import Gpu
from allocmark.explain.measured_facts import MeasuredFacts
from allocmark.recording.importers.recording import (
    BlockMap,
    FailedRequest,
    Recording,
    imported_trace,
)
from allocmark.replays import breakdown_svg, breakdown_words
from allocmark.replays.breakdown_svg import Line
from allocmark.replays.memory_breakdown import Pin, break_down
from allocmark.schema.memory_kinds import CACHED, INACTIVE_SPLIT, LIVE, PENDING_FREE, PRIVATE_POOL
from allocmark.system.units import format_bytes
from allocmark.workloads.event_trace import Op, Trace

MIB = 1 << 20


def recording(*stacks: int) -> Recording:
    """Return a recording whose blocks were allocated on those stacks."""
    none, blocks = np.zeros(8, np.uint8), np.arange(8)[::-1].copy()
    trace = Trace("t", none, blocks, np.full(8, MIB), none)
    kept = [["model.py:1 cache", "main.py:9 main"], ["model.py:2 step"]]
    return Recording("s", 0, trace, stacks=kept, stack_of_block=np.array(stacks, np.int32))


def crafted() -> BlockMap:
    """One segment all free, one pinned by two blocks, one with a block that waits."""
    segments = [
        (1000 * MIB, 20 * MIB, 0, 0),
        (100 * MIB, 20 * MIB, 0, 0),
        (200 * MIB, 10 * MIB, 0, 0),
    ]
    blocks = [
        (100 * MIB, 20 * MIB, 0, 0, -1),
        (200 * MIB, 8 * MIB, 0, 0, -1),
        (208 * MIB, 2 * MIB, 2 * MIB, 2, 2),
        (1000 * MIB, 1 * MIB, MIB - 100, 1, 0),
        (1001 * MIB, 16 * MIB, 0, 0, -1),
        (1017 * MIB, 3 * MIB, 3 * MIB, 1, 1),
    ]
    return BlockMap(7, np.array(segments, np.int64), np.array(blocks, np.int64))


def test_live_cached_inactive_split_and_pending_free() -> None:
    memory = break_down(crafted(), recording(0, 1, 1))
    assert (memory.reserved_bytes, memory.segments, memory.pinned_segments) == (50 * MIB, 3, 2)
    assert (memory.live_bytes, memory.requested_bytes) == (4 * MIB, 4 * MIB - 100)
    assert (memory.cached_bytes, memory.pending_free_bytes) == (20 * MIB, 2 * MIB)
    assert (memory.inactive_split_bytes, memory.largest_free_bytes) == (24 * MIB, 20 * MIB)
    step, cache = memory.pins
    assert (step.stack, step.blocks, step.live_bytes) == (("model.py:2 step",), 2, 5 * MIB)
    assert (step.segments, step.inactive_split_bytes) == (2, 24 * MIB)
    assert (cache.blocks, cache.live_bytes, cache.inactive_split_bytes) == (1, MIB, 16 * MIB)
    worst = memory.worst[0]
    assert (worst.address, worst.inactive_split_bytes, worst.live_bytes) == (
        1000 * MIB,
        16 * MIB,
        4 * MIB,
    )
    assert [size for size, _stack in worst.blocks] == [3 * MIB, MIB]


def test_the_words_name_every_part_and_the_place() -> None:
    run = recording(0, 1, 1)
    failed = [FailedRequest(7, 30 * MIB, 5)]
    run = Recording("s", 0, run.trace, None, {}, run.stacks, run.stack_of_block, failed)
    lines = breakdown_words.sentences(break_down(crafted(), run), "torch-native", True, run)
    assert "50 MiB are reserved in 3 segments: 4 MiB live, 20 MiB cached" in lines[0]
    assert f"24 MiB inactive split ({INACTIVE_SPLIT.meaning}; in 2 segments), " in lines[0]
    assert f"2 MiB pending free ({PENDING_FREE.meaning})" in lines[0]
    assert lines[1] == (
        "It asked for 30 MiB in model.py:1 cache < main.py:9 main; "
        "the largest free block had 20 MiB"
    )
    assert lines[2] == (
        "Most of what is live: 3 MiB in 1 block of model.py:2 step; "
        "1 MiB in 1 block of model.py:1 cache < main.py:9 main"
    )
    assert lines[3] == "2 blocks (5 MiB) keep 24 MiB inactive split in 2 segments: model.py:2 step"


def test_no_stack_says_so() -> None:
    memory = break_down(crafted(), recording())
    assert breakdown_words.pinned(memory.pins[:1]).endswith("no stack was recorded")


def test_explain_has_the_same_names_for_the_same_memory() -> None:
    """The memory of `crafted`, by the counters of a running process."""
    memory = break_down(crafted(), recording(0, 1, 1))
    counted = Counters(
        *("torch", "", 0, None),
        live_bytes=memory.live_bytes,
        active_bytes=memory.live_bytes + memory.pending_free_bytes,
        reserved_bytes=memory.reserved_bytes,
        inactive_split_bytes=memory.inactive_split_bytes,
    )
    card = Gpu("GPU-a", "One", "580", {7: 100 * MIB})
    facts = MeasuredFacts(None, "not measured")
    shown = {part.name: part for part in take_apart(card, 7, [counted], facts).parts}
    (line, *_rest) = breakdown_words.sentences(memory, "x", False, recording(0, 1, 1))
    for kind in (LIVE, CACHED, INACTIVE_SPLIT, PENDING_FREE):
        part = shown[kind.name]
        assert part.note.startswith(kind.meaning)
        assert f"{format_bytes(part.bytes or 0)} {kind.name}" in line


def test_one_is_singular_and_a_segment_that_several_keep_is_told_once() -> None:
    one = Pin(["a.py:1 f"], 1, 512, 1, 927 * 1024, [64])
    other = Pin(["b.py:2 g"], 2, MIB, 1, 927 * 1024, [64])
    elsewhere = Pin(["c.py:3 h"], 1, MIB, 1, 927 * 1024, [128])
    alone = "1 block (512 B) keeps 927 KiB inactive split in 1 segment: a.py:1 f"
    assert breakdown_words.pinned([one]) == alone
    run = recording()
    memory = replace(break_down(crafted(), run), pins=[one, other, elsewhere], pinned_segments=1)
    lines = breakdown_words.sentences(memory, "torch-native", False, run)
    assert "only reused by what fits; in 1 segment)" in lines[0]
    assert lines[1:] == [
        "927 KiB inactive split in 1 segment, kept by 1 block (512 B) of a.py:1 f; "
        "2 blocks (1 MiB) of b.py:2 g",
        "1 block (1 MiB) keeps 927 KiB inactive split in 1 segment: c.py:3 h",
    ]


def test_the_programs_own_lines_come_before_torchs() -> None:
    torchs = "/v/lib/python3.11/site-packages/torch/nn/functional.py:5 linear"
    stack = [torchs, "/project/train.py:7 step", "/project/train.py:9 main"]
    assert breakdown_words.place(stack) == (
        f"{stack[1]} < {stack[2]} < torch/nn/functional.py:5 linear"
    )


@given(
    st.lists(
        st.tuples(
            st.integers(0, 2),
            st.lists(st.tuples(st.integers(1, 50), st.integers(0, 2)), min_size=1, max_size=6),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_the_parts_add_up_and_can_be_drawn(
    shape: list[tuple[int, list[tuple[int, int]]]],
) -> None:
    segments, blocks, address = [], [], 1 << 30
    for pool, held in shape:
        segments.append((address, sum(size for size, _ in held) * 512, 0, pool))
        at = address
        for size, state in held:
            blocks.append((at, size * 512, size * 512 if state else 0, state, -1))
            at += size * 512
        address = at + 4096  # A gap: addresses do not follow each other.
    found = BlockMap(0, np.array(segments, np.int64), np.array(blocks, np.int64))
    run = recording()
    run = replace(run, trace=replace(run.trace, pools=(PoolKind.GRAPH, PoolKind.MEMPOOL)))
    memory = break_down(found, run)
    parts = (
        memory.live_bytes
        + memory.cached_bytes
        + memory.inactive_split_bytes
        + memory.pending_free_bytes
        + memory.private_pool_free_bytes
    )
    assert parts == memory.reserved_bytes
    assert sum(pool.free_bytes for pool in memory.pools) == memory.private_pool_free_bytes
    held_by_pools = sum(size for _, size, _, pool in segments if pool)
    assert sum(pool.reserved_bytes for pool in memory.pools) == held_by_pools
    ElementTree.fromstring(breakdown_svg.segment_map(found))


def test_the_map_shows_each_kind_in_its_share() -> None:
    drawn = ElementTree.fromstring(breakdown_svg.segment_map(crafted()))
    wide: dict[str, float] = {}
    for rect in drawn.iter("{http://www.w3.org/2000/svg}rect"):
        kind = rect.attrib["class"]
        wide[kind] = wide.get(kind, 0) + float(rect.attrib["width"])
    total = sum(wide.values())
    for kind, mib in {"live": 4, "cached": 20, "stuck": 2, "split": 24}.items():
        assert abs(wide[kind] / total - mib / 50) < 0.01


def test_pool_memory_belongs_to_its_owner() -> None:
    """A graph's segment is all free, and the place of its largest request is told."""
    crafted_map = crafted()
    crafted_map.segments[0, 3] = 1  # The one of 20 MiB that is pinned by two blocks.
    crafted_map.segments[1, 3] = 2  # The one that is all free.
    begin, end = (Op.POOL_BEGIN, -1, 2, 0), (Op.POOL_END, -1, 0, 0)
    rows = [begin, (0, 0, MIB, 0), (0, 1, 20 * MIB, 0), end, (0, 2, 30 * MIB, 0)]
    trace = imported_trace("s", rows, (PoolKind.MEMPOOL, PoolKind.GRAPH))
    run = replace(recording(0, 1, 1), trace=trace)
    memory = break_down(crafted_map, run)
    assert (memory.cached_bytes, memory.inactive_split_bytes) == (0, 8 * MIB)
    assert memory.private_pool_free_bytes == 36 * MIB
    assert memory.largest_free_bytes == 8 * MIB  # For a request to the common pool.
    lines = breakdown_words.sentences(memory, "torch-native", False, run)
    assert lines[0].endswith(f"36 MiB {PRIVATE_POOL.name} ({PRIVATE_POOL.meaning})")
    assert lines[1:3] == [
        "Private pool of a MemPool, or shared by CUDA graphs: 20 MiB in 1 segment (4 MiB live)",
        "Private pool of a CUDA graph: 20 MiB in 1 segment (0 B live), its largest request 20 MiB "
        "of model.py:2 step",
    ]
    drawn = ElementTree.fromstring(breakdown_svg.segment_map(crafted_map))
    kinds = {rect.attrib["class"] for rect in drawn.iter("{http://www.w3.org/2000/svg}rect")}
    assert kinds == {"live", "stuck", "split", "pool"}


def test_curves_escape_names_and_leave_out_a_limit_far_above() -> None:
    line = Line('<script>"', "best", [0, 10], [0, 100 * MIB])
    text = breakdown_svg.curves([line], {"<here>": 5}, ("the <card>", 150 * MIB))
    assert "<script>" not in text and "&lt;card&gt;" in text
    ElementTree.fromstring(text)
    assert "card" not in breakdown_svg.curves([line], {}, ("the card", 10_000 * MIB))
    ElementTree.fromstring(breakdown_svg.curves([], {}, None))


def test_memory_by_address_over_time_draws_runs_of_each_kind() -> None:
    """Two points of four cells: nothing, cached, live, live; then split in all."""
    drawn = ElementTree.fromstring(breakdown_svg.over_time([0, 9], [0, 1, 2, 2, 4, 4, 4, 4]))
    paths = {
        path.attrib["class"]: path.attrib["d"].count("M")
        for path in drawn.iter("{http://www.w3.org/2000/svg}path")
    }
    assert paths == {"cached": 1, "live": 1, "split": 1}
