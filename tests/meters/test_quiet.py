"""Quiet cores: what is refused depends on the reference work alone, and nothing is left changed."""

from __future__ import annotations

import os
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
    readings = iter(range(10))
    assert cores.take(lambda: next(readings), 10) == (list(range(10)), True)
    assert cores.refused_share == 0


def test_a_reading_is_refused_by_the_work_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    # settle, before; reading 0; after: slow; settle again, before; readings 1, 2.
    cores = _cores(monkeypatch, _forever(100, 100, 200, 100))
    readings = iter([7, 8, 9])
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
    readings = iter([1, 1_000_000, 1])
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
