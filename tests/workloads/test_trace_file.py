"""The format of recorded files: lossless, small, and refused in one sentence when not sound."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocmark.allocators.base import PoolKind
from allocmark.system.errors import AllocmarkError
from allocmark.workloads import columns, placement_file, seeded, trace_file
from allocmark.workloads.columns import Columns
from allocmark.workloads.event_trace import WITHOUT_BLOCK, Op, Trace
from allocmark.workloads.history import Placement

COLUMNS = ("op", "block", "size", "stream")


@st.composite
def traces(draw: st.DrawFn) -> Trace:
    """Draw any valid trace, blocks left alive included."""
    events: list[tuple[int, int, int, int]] = []
    alive: list[int] = []
    pools = draw(st.lists(st.sampled_from(list(PoolKind)), max_size=3))
    living = list(range(1, len(pools) + 1))
    blocks = routed = 0
    for _ in range(draw(st.integers(0, 60))):
        op = draw(st.sampled_from(list(Op)))
        stream = draw(st.integers(0, 255))
        if op == Op.TRIM:
            events.append((op, -1, 0, stream))
        elif op == Op.POOL_BEGIN and living and not routed:
            routed = draw(st.sampled_from(living))
            events.append((op, -1, routed, stream))
        elif op == Op.POOL_END and routed:
            routed = 0
            events.append((op, -1, 0, stream))
        elif op == Op.POOL_RELEASE and living and living[0] != routed:
            events.append((op, -1, living.pop(0), stream))
        elif op == Op.ALLOC or op in WITHOUT_BLOCK or not alive:
            events.append((Op.ALLOC, blocks, draw(st.integers(0, 2**45)), stream))
            alive.append(blocks)
            blocks += 1
        else:
            block = draw(st.sampled_from(alive))
            events.append((op, block, 0, stream))
            if op == Op.FREE:
                alive.remove(block)
    op_, block_, size_, stream_ = np.array(events, dtype=np.int64).reshape(-1, 4).T
    columns_ = op_.astype("u1"), block_.copy(), size_.copy(), stream_.astype("u1")
    return Trace("any", *columns_, {"n": 1.5}, tuple(pools))


def same(one: Trace, other: Trace) -> bool:
    """Tell whether all columns are equal, in value and type."""
    pairs = [(getattr(one, name), getattr(other, name)) for name in COLUMNS]
    return all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in pairs)


@settings(deadline=None)
@given(trace=traces())
def test_any_trace_comes_back_as_it_was(trace: Trace) -> None:
    content = trace_file.dumps(trace)
    back = trace_file.loads(content, "named")
    assert same(trace, back)
    assert (back.name, back.origin, back.pools) == ("named", trace.origin, trace.pools)
    version = json.loads(gzip.decompress(content).partition(b"\n")[0])["version"]
    assert version == (2 if trace.pools else 1)  # One without pools is what it always was.
    assert trace_file.dumps(replace(back, name="any")) == content


def test_a_hundred_thousand_events_of_a_program_take_little(tmp_path: Path) -> None:
    step = seeded.generate("training")
    blocks = int(step.block.max()) + 1
    steps = range(-(-100_000 // len(step)))
    long = Trace(
        "long",
        np.tile(step.op, len(steps)),
        np.concatenate([step.block + blocks * i for i in steps]),
        np.tile(step.size, len(steps)),
        np.tile(step.stream, len(steps)),
    )
    trace_file.write(tmp_path / "long.trace.gz", long)
    assert (tmp_path / "long.trace.gz").stat().st_size < 300_000
    assert same(trace_file.read(tmp_path / "long.trace.gz"), long)


def test_even_random_sizes_stay_below_the_limit() -> None:
    # The worst case of the format: no size repeats and lifetimes are random.
    trace = seeded.generate("uniform")
    assert len(trace_file.dumps(trace)) / len(trace) < 3.0


def test_a_file_cut_off_anywhere_is_refused() -> None:
    content = trace_file.dumps(seeded.generate("training", 1 / 64))
    for end in range(0, len(content), 7):
        with pytest.raises(AllocmarkError, match=r"^cut is (damaged|not a file)"):
            trace_file.loads(content[:end], "cut")


@settings(deadline=None)
@given(at=st.integers(10, 400), value=st.integers(1, 255))
def test_a_changed_byte_is_refused(at: int, value: int) -> None:
    trace = seeded.generate("kv-cache", 1 / 64)
    content = bytearray(trace_file.dumps(trace))
    content[at] ^= value
    with pytest.raises(AllocmarkError, match="record it again|upgrade it"):
        trace_file.loads(bytes(content), "changed")


@settings(deadline=None)
@given(content=st.binary(max_size=200))
def test_any_bytes_are_refused(content: bytes) -> None:
    for whole in (content, gzip.compress(content)):
        with pytest.raises(AllocmarkError):
            trace_file.loads(whole, "foreign")


def edited(**changes: object) -> bytes:
    """Return a sound file whose JSON line was changed."""
    raw = gzip.decompress(trace_file.dumps(seeded.generate("training", 1 / 64)))
    line, _, rest = raw.partition(b"\n")
    return gzip.compress(json.dumps({**json.loads(line), **changes}).encode() + b"\n" + rest)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"format": "allocmark-placement"}, "not a file of the format allocmark-trace"),
        ({"version": 3}, "version 3 of its format, this allocmark reads up to 2: upgrade"),
        ({"columns": []}, "columns and its length differ"),
        ({"columns": [["op", "f8", 3]]}, "described as f8 x 3"),
        ({"columns": [["op", "u1", -3]]}, "described as u1 x -3"),
        ({"columns": [["op", "u1", 10**12]]}, "damaged"),
        ({"columns": 7}, "damaged"),
        ({"header": {}}, "damaged"),
        ({"header": []}, "header is not an object"),
    ],
)
def test_a_foreign_or_newer_description_is_refused(changes: dict[str, object], words: str) -> None:
    with pytest.raises(AllocmarkError, match=words):
        trace_file.loads(edited(**changes), "edited")


def stored(**changed: list[int]) -> bytes:
    """Return a file of one alloc and its free, with some columns replaced."""
    sound = {"op": [0, 1], "stream": [0, 0], "age": [1], "size_index": [0], "sizes": [512]}
    arrays = {name: np.array(v) for name, v in {**sound, **changed}.items()}
    # As small as they can be, as `dumps` stores them; a sign stays one.
    arrays = {n: v if v.min() < 0 else columns.narrow(v) for n, v in arrays.items()}
    header = {"name": "t", "origin": {}}
    return columns.dumps(trace_file.FORMAT, trace_file.VERSION, Columns(header, arrays))


def test_columns_that_make_no_trace_are_refused() -> None:
    assert len(trace_file.loads(stored(), "sound")) == 2
    for changed in (
        {"op": [0, 9]},
        {"op": [0, -1]},
        {"op": [1, 0]},
        {"age": [2]},
        {"age": [0]},
        {"age": [1, 1]},
        {"size_index": [1]},
        {"size_index": [-2]},
        {"sizes": [-5]},
        {"sizes": [2**63]},
        {"op": [0, 4]},
        {"stream": [0]},
        {"stream": [0, 256]},
    ):
        with pytest.raises(AllocmarkError, match=r"^(trace )?bad is damaged"):
            trace_file.loads(stored(**changed), "bad")


def test_a_file_that_asks_for_too_much_memory_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_LARGEST_BYTES", 1000)
    with pytest.raises(AllocmarkError, match="unpacks to more than"):
        trace_file.loads(gzip.compress(bytes(5000)), "bomb")


def test_a_missing_file_is_one_sentence(tmp_path: Path) -> None:
    for reader in (trace_file, placement_file):
        with pytest.raises(AllocmarkError, match="cannot be read"):
            reader.read(tmp_path / "none")


def test_blocks_not_numbered_by_allocation_are_not_written() -> None:
    op, zero = np.zeros(2, "u1"), np.zeros(2, "u1")
    trace = Trace("t", op, np.array([1, 0]), np.array([8, 8]), zero)
    with pytest.raises(AllocmarkError, match="number its blocks"):
        trace_file.dumps(trace)


def test_a_placement_comes_back_as_it_was(tmp_path: Path) -> None:
    placement = Placement(
        "p",
        np.array([0, 2, 1], "u1"),
        np.array([0, 3, 70_000], "u4"),
        np.array([2 << 20, 20 << 20, 2 << 20]),
        np.array([0x7F0000000000, 0x7EFFE0000000, 0x7F0000000000]),
        np.array([0, 1, 0], "u1"),
        {"gpu": "x"},
    )
    placement_file.write(tmp_path / "p.placement.gz", placement)
    back = placement_file.read(tmp_path / "p.placement.gz")
    for name in ("op", "event", "size", "address", "stream"):
        assert np.array_equal(getattr(back, name), getattr(placement, name))
    assert (back.name, back.origin, len(back)) == ("p", {"gpu": "x"}, 3)


def test_a_trace_is_no_placement() -> None:
    with pytest.raises(AllocmarkError, match="not a file of the format allocmark-placement"):
        placement_file.loads(stored(), "t")
