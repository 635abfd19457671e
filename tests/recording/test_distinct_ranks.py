"""Which ranks are run so that each that allocates otherwise is among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from allocmark.recording.distinct_ranks import distinct, mesh


def job(
    kind: Callable[[int], str],
) -> tuple[Callable[[Sequence[int]], Mapping[int, str]], list[int]]:
    """Return how a job's ranks are run, and which were."""
    ran: list[int] = []

    def run(ranks: Sequence[int]) -> Mapping[int, str]:
        assert not set(ranks) & set(ran), "no rank is run twice"
        ran.extend(ranks)
        return {rank: kind(rank) for rank in ranks}

    return run, ran


@pytest.mark.parametrize(
    ("size", "groups", "dimensions"),
    [
        (8, [range(8)], [range(8)]),
        (64, [range(64), range(8), range(0, 64, 8)], [range(8), range(0, 64, 8)]),
        # A flattened group beside those that it is made of.
        (8, [range(2), range(0, 4, 2), range(4), range(0, 8, 4)], [(0, 1), (0, 2), (0, 4)]),
        # Only the tensor-parallel groups are known: the rest is one dimension.
        (16, [range(4)], [range(4), (0, 4, 8, 12)]),
        (16, [], [range(16)]),
        (1, [range(1)], []),
    ],
)
def test_dimensions_add_up_to_every_rank(
    size: int, groups: Sequence[Sequence[int]], dimensions: Sequence[Sequence[int]]
) -> None:
    found = mesh(size, [list(group) for group in groups])
    if size > 1:
        assert found == [list(line) for line in dimensions]
    sums = {0}
    for line in found:
        sums = {a + b for a in sums for b in line}
    assert sums == set(range(size))


def test_replicas_are_run_three_times() -> None:
    run, ran = job(lambda rank: "same")
    assert distinct([range(512)], run) == {0: list(range(512))}
    assert sorted(ran) == [0, 256, 511]


def test_every_stage_of_a_pipeline_is_run() -> None:
    run, ran = job(lambda rank: f"stage {rank // 8}")
    found = distinct([range(8), range(0, 64, 8)], run)
    assert found == {8 * stage: list(range(8 * stage, 8 * stage + 8)) for stage in range(8)}
    assert len(ran) < 16


def test_the_end_of_an_uneven_split_is_found_to_the_rank() -> None:
    def kind(rank: int) -> str:
        return "two rows" if rank < 333 else "one row" if rank == 333 else "none"

    run, ran = job(kind)
    found = distinct([range(512)], run)
    assert found == {0: list(range(333)), 333: [333], 334: list(range(334, 512))}
    assert len(ran) < 25


def test_first_and_last_differ_in_two_dimensions() -> None:
    def kind(rank: int) -> str:
        data, stage = rank % 4, rank // 4
        return (
            f"{'last shard' if data == 3 else 'shard'} of {'ends' if stage in (0, 7) else 'middle'}"
        )

    run, _ = job(kind)
    found = distinct([range(4), range(0, 32, 4)], run)
    assert {rank: len(alike) for rank, alike in found.items()} == {0: 6, 3: 2, 4: 18, 7: 6}
    for rank, alike in found.items():
        assert {kind(other) for other in alike} == {kind(rank)}
    assert sorted(rank for alike in found.values() for rank in alike) == list(range(32))
