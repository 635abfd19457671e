"""Quiet cores: what is refused depends on the reference work alone, and nothing is left changed."""

from __future__ import annotations

import os
import random
import statistics
import time
from collections.abc import Iterator

import pytest

from allocmark.meters.quiet import CoreState, QuietCores, Reference


@pytest.fixture(autouse=True)
def _same_cores_afterwards() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    yield
    os.sched_setaffinity(0, before)


def _cores(monkeypatch: pytest.MonkeyPatch, speeds: Iterator[int]) -> QuietCores:
    """Return cores on which the errand takes what `speeds` says, from the first reading on."""
    cores = QuietCores()
    monkeypatch.setattr(cores, "_work", lambda: Reference(100, 100))
    cores.__enter__()
    monkeypatch.setattr(cores, "_work", lambda: Reference(100, next(speeds)))
    return cores


def _kept(cores: QuietCores, readings: Iterator[int], count: int) -> tuple[list[int], bool]:
    taken = cores.take(lambda: next(readings), count)
    return list(taken.readings), taken.quiet


def _forever(*values: int) -> Iterator[int]:
    yield from values
    while True:
        yield values[-1]


def test_undisturbed_readings_are_all_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = _cores(monkeypatch, _forever(100))
    assert _kept(cores, iter(range(11)), 10) == (list(range(1, 11)), True)
    assert cores.refused == 0


def test_a_reading_is_refused_by_the_work_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # settle, a reading to warm up, before; reading 7; after: slow; settle again; readings 8, 9.
    cores = _cores(monkeypatch, _forever(100, 100, 200, 100))
    assert _kept(cores, iter([6, 7, 8, 9]), 2) == ([8, 9], True)
    assert (cores.taken, cores.refused) == (2, 1)


def test_where_no_core_is_quiet_the_least_disturbed_fill_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cores = _cores(monkeypatch, _forever(150))
    kept, quiet = _kept(cores, iter(range(1000)), 5)
    assert len(kept) == 5
    assert not quiet


def test_the_value_of_a_reading_plays_no_part(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = _cores(monkeypatch, _forever(100))
    assert _kept(cores, iter([5, 1, 1_000_000, 1]), 3)[0] == [1, 1_000_000, 1]


def test_the_cores_are_given_back_even_after_an_error() -> None:
    before = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), QuietCores() as cores:
        cores.take(lambda: 1 // 0, 1)
    assert os.sched_getaffinity(0) == before


def test_the_reference_work_takes_microseconds_and_repeats() -> None:
    with QuietCores() as cores:
        taken = [cores.look() for _ in range(200)]
    assert 200 < min(one.errand_ns for one in taken) < 100_000
    assert 50 < min(one.chain_ns for one in taken) < 20_000


def test_what_interrupts_the_reference_work_is_no_pace() -> None:
    cores = QuietCores(500)
    cores._quiet_ratio, cores.core_speed_ns = 3.0, 500.0
    look = cores.between(Reference(90_000, 1500), Reference(500, 1500))
    assert (look.chain_ns, look.slowness) == (500, 1.0)
    assert cores.between(Reference(500, 1500), Reference(500, 90_000)).slowness == 60


def test_the_quiet_ones_are_chosen_and_brought_to_one_pace() -> None:
    cores = QuietCores(500)
    cores.core_speed_ns = 500.0
    readings = [
        (CoreState(500, 1.0), 10.0),
        (CoreState(250, 1.05), 6.0),
        (CoreState(500, 1.7), 99.0),
    ]
    assert cores.choose(readings, 1) == ([10.0, 12.0], False)
    assert cores.choose(readings, 3) == ([10.0, 12.0, 99.0], True)
    assert cores.choose([], 3) == ([], False)


@pytest.mark.parametrize(("asked", "taken"), [(110.0, 110.0), (None, 100.0), (1000.0, 100.0)])
def test_the_pace_is_the_one_asked_for_on_the_same_computer_only(
    monkeypatch: pytest.MonkeyPatch, asked: float | None, taken: float
) -> None:
    cores = QuietCores(asked)
    monkeypatch.setattr(cores, "_work", lambda: Reference(100, 300))
    with cores:
        assert cores.core_speed_ns == taken


class _BusyHost:
    """Cores that are shared most of the time, in periods, as seen on a shared host of an H200.

    Time passes only by what is done: a move takes 60 microseconds and leaves cold caches behind, in
    which work takes four times as long; a neighbour makes it take 1.7 times as long, the chain of
    multiplications hardly longer. The frequency of each core steps by 15 %.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, quiet_share: float) -> None:
        self.now_ns, self.core, self.cold, self.base_ns = 0.0, 0, 0, 500
        self.steps = True
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

    def frequency(self) -> float:
        """Return what the core's frequency makes everything take, in steps of some milliseconds."""
        step = int(self.now_ns / 5e6) + 7 * self.core
        return 1 + 0.05 * (step % 4) if self.steps else 1.0

    def work(self) -> Reference:
        base = self.base_ns * self.frequency() * self.random.uniform(1, 1.02)
        slow = self.slow()
        chain = base * (1.03 if slow > 1 else 1)
        errand = 3 * base * slow * (4 if self.cold else 1) * self.random.uniform(1, 1.02)
        self.cold = max(0, self.cold - 1)
        self.now_ns += chain + errand + 1500
        return Reference(int(chain), int(errand))

    def read(self) -> float:
        """Return what a batch takes: 20 microseconds on a core of our own with warm caches."""
        taken = 20_000 * self.frequency() * self.slow() * (1.5 if self.cold else 1)
        self.cold = 0
        self.now_ns += taken
        return taken


@pytest.mark.parametrize("share", [0.05, 0.2, 0.999])
def test_quiet_readings_are_found_on_a_host_that_is_busy_most_of_the_time(
    monkeypatch: pytest.MonkeyPatch, share: float
) -> None:
    host = _BusyHost(monkeypatch, share)
    cores = QuietCores(500)
    monkeypatch.setattr(cores, "_work", host.work)
    with cores:
        begin = host.now_ns
        taken = cores.take(host.read, 200)
        took_s = (host.now_ns - begin) / 1e9
    assert taken.quiet
    assert took_s < 0.3
    at_one_pace = [reading * factor for reading, factor in taken]
    undisturbed = sum(abs(reading / 20_000 - 1) < 0.04 for reading in at_one_pace)
    assert undisturbed >= 0.95 * len(at_one_pace)


@pytest.mark.parametrize("factor", [1.08, 1.25])
def test_a_lower_frequency_of_all_cores_refuses_nothing_and_changes_no_figure(
    monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    host = _BusyHost(monkeypatch, 0.999)
    host.steps = False
    cores = QuietCores(500)
    monkeypatch.setattr(cores, "_work", host.work)
    with cores:
        host.base_ns = int(500 * factor)
        monkeypatch.setattr(host, "frequency", lambda: 1.0)
        taken = cores.take(lambda: host.read() * factor, 200)
    assert taken.quiet
    assert cores.refused < 0.05 * (cores.taken + cores.refused)
    middle = statistics.median(reading * by for reading, by in taken)
    assert middle == pytest.approx(20_000, rel=0.03)


def test_where_all_cores_are_shared_readings_end_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    host = _BusyHost(monkeypatch, 0.999)
    cores = QuietCores(500)
    monkeypatch.setattr(cores, "_work", host.work)
    with cores:
        monkeypatch.setattr(host, "slow", lambda: 1.7)
        begin = host.now_ns
        taken = cores.take(host.read, 200)
    assert (len(taken.readings), taken.quiet) == (200, False)
    assert (host.now_ns - begin) / 1e9 < 0.3
