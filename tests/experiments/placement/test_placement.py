"""Where blocks go: allocators by hand that answer each question differently, and torch's own."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from allocmark.allocators.base import Capability
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.placement.experiment import measure_placement
from allocmark.system.errors import NotMeasurableError
from tests.support.emulation import CountingAllocator, emulated, needs_torch

ANSWERS = ("best_fit", "merges_at_free", "splits")
MIB = 1 << 20


class OnePiece(CountingAllocator):
    """Cuts blocks out of one piece; `best` takes the smallest hole, `merging` joins at a free."""

    capabilities = frozenset({Capability.CACHE, Capability.RESTART, Capability.EXACT})

    def __init__(self, best: bool, merging: bool) -> None:
        super().__init__()
        self.best, self.merging = best, merging
        self.restart()

    def restart(self) -> None:
        self.live.clear()
        self.holes = {1 << 30: 1 << 40}

    def alloc(self, size_bytes: int, stream: int = 0) -> int:
        fitting = [a for a, size in sorted(self.holes.items()) if size >= size_bytes]
        start = min(fitting, key=lambda a: self.holes[a]) if self.best else fitting[0]
        size = self.holes.pop(start)
        if size > size_bytes:
            self.holes[start + size_bytes] = size - size_bytes
        self.live[start] = size_bytes
        return start

    def free(self, block: int, stream: int = 0) -> None:
        self.holes[block] = self.live.pop(block)
        if not self.live:
            self.restart()
        elif self.merging:
            self._merge()

    def _merge(self) -> None:
        merged: dict[int, int] = {}
        for start, size in sorted(self.holes.items()):
            last = next(reversed(merged), None)
            if last is not None and last + merged[last] == start:
                merged[last] += size
            else:
                merged[start] = size
        self.holes = merged


def _told(allocator: CountingAllocator) -> dict[str, Any]:
    out = io.StringIO()
    measure_placement(allocator, Recorder(out))
    lines = [json.loads(line)["data"] for line in out.getvalue().splitlines()]
    return {line["metric"]: line["value"] for line in lines if line["metric"] in ANSWERS}


@pytest.mark.parametrize("best", [True, False])
@pytest.mark.parametrize("merging", [True, False])
def test_an_allocator_is_told_by_its_addresses(best: bool, merging: bool) -> None:
    told = _told(OnePiece(best, merging))
    assert (told["best_fit"], told["merges_at_free"]) == (best, merging)


def test_blocks_that_are_no_addresses_have_a_reason() -> None:
    out = io.StringIO()
    with pytest.raises(NotMeasurableError, match="side by side"):
        measure_placement(CountingAllocator(), Recorder(out))
    told = [json.loads(line)["data"] for line in out.getvalue().splitlines()]
    assert {line["metric"] for line in told} == {*ANSWERS, "hole_bytes"}
    assert all("side by side" in line["reason"] for line in told)


@needs_torch
def test_torch_takes_the_best_hole_and_merges_at_once() -> None:
    told = emulated(
        "4GiB",
        """
import io
from allocmark.experiments.placement.experiment import measure_placement
from allocmark.experiments.core.recorder import Recorder
a = registry()["torch-native"]
a.open(0)
out = io.StringIO()
measure_placement(a, Recorder(out))
data = [json.loads(line)["data"] for line in out.getvalue().splitlines()]
print(json.dumps({d["metric"]: d["value"] for d in data if not d["axes"]}))
""",
    )
    assert told == {"best_fit": 1, "merges_at_free": 1, "splits": 1}
