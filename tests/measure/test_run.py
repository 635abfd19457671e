"""The one way a run is carried out: begun, measured, saved, finished, or stopped on the way."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import PROFILES
from allocmark.machine.frameworks import Share
from allocmark.measure import run
from allocmark.measure.run import Measured, Plan, Stacks, carry_out
from allocmark.measure.stopping import RunStoppedError
from allocmark.schema import run_state
from allocmark.store import run_lock
from allocmark.system.errors import AllocmarkError, DocumentError


class Stack:
    machine, name = "gpu", "stack"


STACKS: Stacks = {Share("torch", ("torch",)): Stack}  # type: ignore[dict-item]


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Plan]:
    """A whole run of two experiments, in which nothing is really measured."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    monkeypatch.setattr(run, "measure_experiments", lambda *_: iter([tmp_path / "a"]))
    monkeypatch.setattr(run, "mark_rest", lambda *_: None)
    monkeypatch.setattr(run, "disturbances", list)
    chosen = [catalog.experiment(name) for name in ("latency", "context")]
    yield Plan(tmp_path, PROFILES["quick"], chosen, [])
    for number, handler in kept.items():
        signal.signal(number, handler)


def state(plan: Plan) -> run_state.RunState:
    found = run_state.read(plan.results / "gpu" / "stack" / "quick")
    assert found is not None
    return found


def again() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_what_is_made_of_the_documents_is_saved_before_the_run_is_finished(plan: Plan) -> None:
    saved: list[Measured] = []

    def save(measured: Measured) -> None:
        saved.append(measured)
        assert state(plan).finished is None
        with pytest.raises(run_lock.RunningError):
            carry_out(plan, STACKS)

    assert carry_out(plan, STACKS, save) == [plan.results / "a"]
    assert saved == [{share: [plan.results / "a"] for share in STACKS}]
    assert state(plan).finished is not None


def test_a_damaged_core_speed_ends_the_run_before_anything_is_measured(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    (plan.results / "gpu").mkdir()
    (plan.results / "gpu" / "machine.pace").write_text("{")
    monkeypatch.setattr(run, "measure_experiments", lambda *_: pytest.fail("it was measured"))
    with pytest.raises(DocumentError, match="machine.pace holds no pace"):
        carry_out(plan, STACKS)
    assert run_state.read(plan.results / "gpu" / "stack" / "quick") is None


@pytest.mark.parametrize("at", ["measuring", "marking", "saving"])
def test_a_run_that_is_stopped_marks_the_rest_and_is_carried_on(
    plan: Plan, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    marked: list[Any] = []

    def measure(*_: object) -> Iterator[Path]:
        yield plan.results / "a"
        if at != "saving":
            again()

    def mark(*what: Any) -> None:
        marked.append(what)
        again()  # Whoever is impatient presses it twice: this is ignored.

    monkeypatch.setattr(run, "measure_experiments", measure)
    monkeypatch.setattr(run, "mark_rest", mark)
    with pytest.raises(RunStoppedError, match="every finished document is saved"):
        carry_out(plan, STACKS, lambda _: again())
    assert len(marked) == (at != "saving")
    begun = state(plan)
    assert begun.finished is None
    monkeypatch.setattr(run, "measure_experiments", lambda *_: iter([plan.results / "a"]))
    carry_out(plan, STACKS)
    assert state(plan).id == begun.id and state(plan).finished


def test_a_run_without_a_document_is_no_success(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "measure_experiments", lambda *_: iter(()))
    with pytest.raises(AllocmarkError, match="the quick profile has no such document"):
        carry_out(plan, STACKS)
