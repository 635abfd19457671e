"""Which ranks of a job allocate alike, found by running few of them.

A job is a mesh: pipeline stages, replicas, shards. Along each of its dimensions the first, the
last and the middle rank are run, and between two that differ the one half way, until neighbours are
left: all stages of a pipeline, and where the shards of an uneven split end. Ranks between two that
allocate alike are taken to allocate as they do; the answer says that they were not run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

Run = Callable[[Sequence[int]], Mapping[int, str]]
"""Runs ranks; returns a digest of what each has allocated."""


def mesh(world_size: int, groups: Sequence[Sequence[int]]) -> list[list[int]]:
    """Return the dimensions of a job's mesh as the ranks along each through rank 0.

    `groups` are those that rank 0 is in. A rank is the sum of one rank of each dimension; what the
    groups leave open is one dimension more.
    """
    dimensions: list[list[int]] = []
    covered = {0}
    for group in sorted({tuple(sorted(g)) for g in groups if len(g) > 1}, key=len):
        sums = {a + b for a in covered for b in group}
        if len(sums) == len(covered) * len(group) and max(sums) < world_size:
            dimensions.append(list(group))
            covered = sums
    if len(covered) == world_size:
        return dimensions
    step = len(covered)
    if covered == set(range(step)) and world_size % step == 0:
        return [*dimensions, list(range(0, world_size, step))]
    return [list(range(world_size))]


def distinct(dimensions: Sequence[Sequence[int]], run: Run) -> dict[int, list[int]]:
    """Return the ranks that were run, each with all that allocate as it does."""
    digests: dict[int, str] = {}

    def look(ranks: Sequence[int]) -> None:
        if new := sorted({rank for rank in ranks if rank not in digests}):
            digests.update(run(new))

    look([0, *(line[-1] for line in dimensions)])
    parts = [_runs(line, digests, look) for line in dimensions]
    first_of = [
        [line[run_[0]] for run_ in runs] for line, runs in zip(dimensions, parts, strict=True)
    ]
    corners = {sum(ranks): ranks for ranks in itertools.product(*first_of)}
    last = sum(line[-1] for line in dimensions)
    look([*corners, last])
    members: dict[str, list[int]] = {}
    for places in itertools.product(*(range(len(runs)) for runs in parts)):
        corner = sum(firsts[place] for firsts, place in zip(first_of, places, strict=True))
        alike = [
            [line[at] for at in runs[place]]
            for line, runs, place in zip(dimensions, parts, places, strict=True)
        ]
        of = members.setdefault(digests[corner], [])
        of += [rank for ranks in itertools.product(*alike) if (rank := sum(ranks)) not in digests]
    for rank, digest in digests.items():
        members.setdefault(digest, []).append(rank)
    shown = {digest: min(rank for rank in digests if digests[rank] == digest) for digest in members}
    found = {shown[digest]: sorted(set(ranks)) for digest, ranks in members.items()}
    return dict(sorted(found.items()))


def _runs(
    line: Sequence[int], digests: Mapping[int, str], look: Callable[[Sequence[int]], None]
) -> list[list[int]]:
    """Return the places of a dimension in parts whose ranks allocate alike."""
    places = {0, len(line) - 1, len(line) // 2}
    look([line[place] for place in places])
    while True:
        pairs = itertools.pairwise(sorted(places))
        between = {
            math.ceil((left + right) / 2)
            for left, right in pairs
            if right - left > 1 and digests[line[left]] != digests[line[right]]
        }
        if not between:
            break
        look([line[place] for place in between])
        places |= between
    runs: list[list[int]] = []
    before = ""
    for place in range(len(line)):
        # Between two that were run and are alike; else it was run itself.
        at = max(known for known in places if known <= place)
        digest = digests[line[at]]
        if runs and digest == before:
            runs[-1].append(place)
        else:
            runs.append([place])
        before = digest
    return runs
