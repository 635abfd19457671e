"""Quiet cores: what is refused depends on the reference work alone, and nothing is left changed."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator

import pytest

from allocmark.meters.quiet import QuietCores


@pytest.fixture(autouse=True)
def _same_cores_afterwards() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def _cores(monkeypatch: pytest.MonkeyPatch, speeds: Iterator[int]) -> QuietCores:
    """Return cores whose reference work takes what `speeds` says, from the first reading on."""
    cores = QuietCores()
    monkeypatch.setattr(cores, "_work", lambda: 100)
    cores.__enter__()
    monkeypatch.setattr(cores, "_work", lambda: next(speeds))
    return cores


def _forever(*values: int) -> Iterator[int]:
    yield from values
    while True:
        yield values[-1]


def test_undisturbed_readings_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = _cores(monkeypatch, _forever(100))
    readings = iter(range(11))
    assert cores.take(lambda: next(readings), 10) == (list(range(1, 11)), True)
    assert cores.refused_share == 0


def test_a_reading_is_refused_by_the_work_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # settle, a reading to warm up, before; reading 7; after: slow; settle again; readings 8, 9.
    cores = _cores(monkeypatch, _forever(100, 100, 200, 100))
    readings = iter([6, 7, 8, 9])
    assert cores.take(lambda: next(readings), 2) == ([8, 9], True)
    assert (cores.taken, cores.refused) == (2, 1)


def test_where_no_core_is_quiet_the_least_disturbed_fill_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores = _cores(monkeypatch, _forever(150))
    readings = iter(range(1000))
    kept, quiet = cores.take(lambda: next(readings), 5)
    assert len(kept) == 5
    assert not quiet


def test_the_value_of_a_reading_plays_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = _cores(monkeypatch, _forever(100))
    readings = iter([5, 1, 1_000_000, 1])
    assert cores.take(lambda: next(readings), 3)[0] == [1, 1_000_000, 1]


def test_the_cores_are_given_back_even_after_an_error() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), QuietCores() as cores:
        cores.take(lambda: 1 // 0, 1)
    assert os.sched_getaffinity(0) == before


def test_the_reference_work_takes_microseconds_and_repeats() -> None:
    with QuietCores() as cores:
        taken = [cores._work() for _ in range(200)]
    assert 200 < min(taken) < 100_000


class _BusyHost:
    """Cores that are shared most of the time, in periods, as seen on a shared host of an H200.

    Time passes only by what is done: a move takes 60 microseconds and leaves cold caches behind, in
    which work takes four times as long; a neighbour makes everything take 1.7 times as long.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, quiet_share: float) -> None:
        self.now_ns, self.core, self.cold, self.base_ns = 0.0, 0, 0, 1500
        self.random = random.Random(7)
        self.share = quiet_share
        self.until = [0.0] * 16
        self.quiet = [False] * 16
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
        monkeypatch.setattr(os, "sched_setaffinity", lambda _, cores: self.move(min(cores)))
        monkeypatch.setattr(time, "monotonic", lambda: self.now_ns / 1e9)

    def move(self, core: int) -> None:
        self.core, self.cold = core, 4
        self.now_ns += 60_000

    def slow(self) -> float:
        """Return by how much this core is slowed now."""
        while self.now_ns >= self.until[self.core]:
            self.quiet[self.core] = not self.quiet[self.core]
            mean = 1e6 if self.quiet[self.core] else 1e6 * (1 / self.share - 1)
            self.until[self.core] += self.random.expovariate(1 / mean)
        return 1.0 if self.quiet[self.core] else 1.7

    def work(self) -> int:
        taken = self.base_ns * self.slow() * (4 if self.cold else 1) * self.random.uniform(1, 1.05)
        self.cold = max(0, self.cold - 1)
        self.now_ns += taken + 1500
        return int(taken)

    def read(self) -> float:
        """Return what a batch takes: 20 microseconds on a core of our own with warm caches."""
        taken = 20_000 * self.slow() * (1.5 if self.cold else 1)
        self.cold = 0
        self.now_ns += taken
        return taken


@pytest.mark.parametrize("share", [0.05, 0.2, 0.999])
def test_quiet_readings_are_found_on_a_host_that_is_busy_most_of_the_time(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    host = _BusyHost(monkeypatch, share)
    cores = QuietCores()
    monkeypatch.setattr(cores, "_work", host.work)
    with cores:
        begin = host.now_ns
        kept, quiet_ones = cores.take(host.read, 200)
        took_s = (host.now_ns - begin) / 1e9
    assert quiet_ones
    assert took_s < 0.3
    undisturbed = sum(reading == 20_000 for reading in kept)
    assert undisturbed >= 0.95 * len(kept)


@pytest.mark.parametrize(("factor", "quiet_ones"), [(1.08, True), (1.3, False)])
def test_where_all_cores_became_slower_readings_end_in_time(
    monkeypatch: pytest.MonkeyPatch, factor: float, quiet_ones: bool
) -> None:
    """A lower frequency is no neighbour: only what is far from the standard is called noisy."""
    host = _BusyHost(monkeypatch, 0.999)
    monkeypatch.setattr(host.random, "uniform", lambda low, high: low)
    cores = QuietCores()
    monkeypatch.setattr(cores, "_work", host.work)
    with cores:
        host.base_ns = int(1500 * factor)
        begin = host.now_ns
        kept, quiet = cores.take(host.read, 200)
    assert (len(kept), quiet) == (200, quiet_ones)
    assert (host.now_ns - begin) / 1e9 < 0.2
