"""The seeded workloads: the same bytes everywhere, valid at any seed and scale, of their shape."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allocmark.system.errors import AllocmarkError, UnknownNameError
from allocmark.system.units import GIB, MIB
from allocmark.workloads import seeded
from allocmark.workloads.building import Builder, Draws, workload
from allocmark.workloads.event_trace import Op, Trace
from allocmark.workloads.seeded.synthetic import BOUNDARIES

# What seed 1 gives at scale 1, so that results stay comparable: whoever changes a workload on
# purpose changes its line here and the version of the benchmarks that use it.
PINNED = {
    name: digest
    for digest, name in (
        line.split() for line in (Path(__file__).parent / "seeded.sha256").read_text().splitlines()
    )
}
names = pytest.mark.parametrize("name", [*seeded.registry()])


def digest(trace: Trace) -> str:
    """Return a hash of all columns, the same on machines of either byte order."""
    found = hashlib.sha256()
    for column, code in ((trace.op, "u1"), (trace.block, "<i8"), (trace.size, "<i8")):
        found.update(column.astype(code).tobytes())
    found.update(trace.stream.astype("u1").tobytes())
    return found.hexdigest()


@names
def test_seed_and_scale_give_the_same_bytes_everywhere(name: str) -> None:
    made = digest(seeded.generate(name))
    assert PINNED.get(name) == made, f"seeded.sha256 should have the line: {made}  {name}"


@names
def test_default_size_is_that_of_a_run_of_seconds(name: str) -> None:
    trace = seeded.generate(name)
    assert 1 * GIB <= trace.peak_requested_bytes <= 3 * GIB
    assert 2000 <= len(trace) <= 5000


@names
@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 2**63), scale=st.floats(1 / 64, 64))
def test_valid_and_all_freed_for_any_seed_and_scale(name: str, seed: int, scale: float) -> None:
    trace = seeded.generate(name, scale, seed)
    trace.validate()
    assert trace.live_bytes[-1] == 0
    assert trace.streams == 1
    assert trace.size[trace.op == Op.ALLOC].min() >= 1
    assert (trace.size[trace.op != Op.ALLOC] == 0).all()
    assert dict(trace.origin) == {"kind": "seeded", "seed": seed, "scale": scale}


@names
@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32), scale=st.floats(2, 40))
def test_peak_follows_the_scale(name: str, seed: int, scale: float) -> None:
    small, large = (seeded.generate(name, s, seed).peak_requested_bytes for s in (1.0, scale))
    assert 0.5 * scale <= large / small <= 1.5 * scale


@names
def test_largest_gpus_are_filled(name: str) -> None:
    assert seeded.generate(name, 50).peak_requested_bytes > 50 * GIB


@names
def test_another_seed_gives_another_trace(name: str) -> None:
    assert digest(seeded.generate(name, seed=2)) != PINNED[name]


def test_ascending_and_descending_differ_in_order_only() -> None:
    up, down = seeded.generate("ascending"), seeded.generate("descending")
    up_sizes, down_sizes = (t.size[t.op == Op.ALLOC] for t in (up, down))
    for begin in range(0, 1600, 400):
        one_round = slice(begin, begin + 400)
        assert (np.diff(up_sizes[one_round]) >= 0).all()
        assert up_sizes[one_round].tolist() == down_sizes[one_round][::-1].tolist()


def test_boundary_sizes_lie_around_the_thresholds() -> None:
    trace = seeded.generate("boundary", 3)
    sizes = set(trace.size[trace.op == Op.ALLOC].tolist())
    assert {abs(size - min(BOUNDARIES, key=lambda b: abs(b - size))) for size in sizes} <= {
        0,
        1,
        511,  # 512 B less 512 is nothing, and a block has at least one byte.
        512,
    }
    assert 10 * MIB + 1 in sizes
    assert 1 * MIB in sizes


def test_bimodal_has_nothing_in_between() -> None:
    trace = seeded.generate("bimodal")
    sizes = trace.size[trace.op == Op.ALLOC]
    huge = sizes >= 32 * MIB
    assert ((sizes <= MIB // 4) | huge).all()
    assert 0.03 < huge.mean() < 0.08


def test_pinned_keeps_small_blocks_to_the_end() -> None:
    trace = seeded.generate("pinned")
    size_of = trace.size[trace.op == Op.ALLOC]
    last = trace.block[-120:]
    assert (trace.op[-120:] == Op.FREE).all()
    assert size_of[last].max() <= 4 * MIB


def test_unknown_name_and_scale_are_refused_in_one_sentence() -> None:
    with pytest.raises(UnknownNameError, match="choose from uniform, bimodal"):
        seeded.generate("unifrom")
    for scale in (0.0, -1.0, 257.0, float("nan"), float("inf")):
        with pytest.raises(AllocmarkError, match="from 1/64 to 256"):
            seeded.generate("uniform", scale)


def test_draws_are_what_the_seed_says() -> None:
    # The first three doubles of numpy.random.default_rng(1).
    draws = Draws(1)
    assert [round(draws.unit(), 8) for _ in range(3)] == [0.51182162, 0.9504637, 0.14415961]


def test_builder_frees_the_oldest_first() -> None:
    trace = Builder()
    for size in (30, 20, 10):
        trace.alloc(size)
    trace.free_oldest_until(25, 60)
    assert trace.live == [1, 2]
    built = trace.build("t", {})
    assert built.block.tolist() == [0, 1, 2, 0, 1, 2]
    assert built.peak_requested_bytes == 60


def test_an_empty_builder_gives_an_empty_trace() -> None:
    built = Builder().build("nothing", {})
    built.validate()
    assert len(built) == 0
    assert built.peak_requested_bytes == 0


def test_a_name_that_is_taken_is_refused() -> None:
    with pytest.raises(AllocmarkError, match="two workloads are named 'uniform': rename yours"):
        workload("uniform", "another")(seeded.registry()["bimodal"].make)
    assert seeded.registry()["uniform"].make is not seeded.registry()["bimodal"].make
