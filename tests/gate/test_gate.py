"""The gate: what is held against what, its exit codes, and what it measures again."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from allocmark.compare.core_speed import stepped
from allocmark.compare.thresholds import load
from allocmark.gate.gating import gate
from allocmark.gate.newest_run import gate_newest_run, own_thresholds
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure
from allocmark.store.runs import RecordedRun, runs_below
from allocmark.system.errors import AllocmarkError, NothingBeforeError
from tests.support import budgets
from tests.support.compare_samples import FACTS, STACK, document, exact, hits, put, timed

RULES = load()


def _night(
    root: Path, day: int, *figures: Figure, driver: str = "580.1", finished: bool = True
) -> Path:
    """Write a run of a day below a results folder of its own."""
    one = document(
        *figures,
        run=f"r{day}",
        started=f"2026-11-{day:02}T00:00:00Z",
        facts={**FACTS, "driver": driver},
    )
    stack = STACK.replace("580.1", driver)
    return put(root / f"night{day}" / "results", one, stack, finished)


def test_the_newest_is_held_against_the_last(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 5))
    _night(tmp_path, 2, exact("ooms", 1))
    _night(tmp_path, 3, exact("ooms", 2), driver="581.2")
    found = gate(tmp_path, RULES)
    assert found.outcome == "regression"
    (row,) = found.regressions
    assert (row.a, row.b) == (1, 2)
    told = "gate: regression: 1 figure is worse (latency/torch-native/ooms: 1 -> 2): test-gpu/"
    assert found.sentence().startswith(told)


def test_times_of_the_emulated_driver_are_shown_and_never_judged(tmp_path: Path) -> None:
    """A host that was busy makes them ten times as long: as figures, as means, and beside 0."""
    for day, times in ((1, 1.0), (2, 1.0), (3, 1.0), (4, 10.0)):
        figures = [
            *hits(day, process=times),
            timed([0.005 * times] * 3, "replay_seconds"),
            timed([0.0 if day < 4 else 1.0], "other_seconds"),
            exact("ooms", 1),
        ]
        one = document(*figures, run=f"r{day}", started=f"2026-11-0{day}T00:00:00Z")
        put(tmp_path / f"night{day}" / "results", replace(one, emulated=True))
    found = gate(tmp_path, RULES, last=3)
    assert (found.outcome, found.found) == ("fine", "nothing is worse")
    assert found.comparison.means == ()
    rows = {row.figure_id: row for row in found.comparison.rows}
    assert rows.pop("latency/torch-native/ooms").verdict == "same"
    assert len(rows) == 22
    for row in rows.values():
        assert (row.verdict, row.resolvable) == ("unclear", False)
        assert row.note == "times of the emulated driver are not judged"
        assert row.b > row.a


def test_what_is_bad_or_unfinished_is_no_baseline(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 1))
    bad = _night(tmp_path, 2, exact("ooms", 9)).parent
    _night(tmp_path, 3, exact("ooms", 9), finished=False)
    _night(tmp_path, 4, exact("ooms", 1))
    found = gate(tmp_path, RULES, bad=[bad])
    assert found.outcome == "fine"
    assert [run.started[:10] for run in found.baselines] == ["2026-11-01"]


def test_other_lines_are_no_baseline(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 1))
    other = document(exact("ooms", 0), run="f", profile="full", started="2026-11-02T00:00:00Z")
    put(tmp_path / "full", other)
    _night(tmp_path, 3, exact("ooms", 1))
    assert [run.profile for run in gate(tmp_path, RULES, last=5).baselines] == ["quick"]


def test_nothing_to_hold_it_against_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match="no results below"):
        gate(tmp_path, RULES)
    _night(tmp_path, 1, exact("ooms", 1))
    with pytest.raises(NothingBeforeError, match="nothing before test-gpu/") as first:
        gate(tmp_path, RULES)
    assert first.value.exit_code == 0  # A first run is no fault.


def test_a_stack_measured_again_into_one_folder_is_told_what_to_do_and_that_works(
    tmp_path: Path,
) -> None:
    before = document(exact("ooms", 1), run="r1", started="2026-11-01T00:00:00Z")
    after = document(exact("ooms", 2), run="r2", started="2026-11-02T00:00:00Z")
    for one in (before, after):
        put(tmp_path / "once" / "results", one)
    with pytest.raises(NothingBeforeError) as told:
        gate(tmp_path / "once", RULES)
    for words in ("second run of a stack replaces the first", "`nox -s nightly`", "--against"):
        assert words in str(told.value)
    for night, one in enumerate((before, after)):
        put(tmp_path / "nights" / str(night) / "results", one)
    assert gate(tmp_path / "nights", RULES).outcome == "regression"
    put(tmp_path / "kept", before)
    named = [str(tmp_path / "kept")]
    found = gate_newest_run(tmp_path / "once" / "results", against=named)
    assert found.gates[0].outcome == "regression"


def test_a_step_among_the_earlier_runs_hides_no_further_one(tmp_path: Path) -> None:
    for day, bytes_ in enumerate((1, 1, 2, 10), 1):
        _night(tmp_path, day, exact("peak_reserved_bytes", bytes_ << 30, "bytes"))
    assert gate(tmp_path, RULES, last=3).outcome == "regression"


def _tensorflow(root: Path, day: int, value: int) -> None:
    """Write the other framework's part of a night's run."""
    facts = {**FACTS, "framework": "tensorflow"}
    one = document(
        *(exact("retries", value), exact("ooms", 0)),
        subject="tf-growth",
        run=f"t{day}",
        started=f"2026-11-{day:02}T00:10:00Z",
        facts=facts,
    )
    put(root / f"night{day}" / "results", one, STACK.replace("torch", "tensorflow"))


def test_each_framework_of_the_newest_run_is_held_against_its_own(tmp_path: Path) -> None:
    for day, ooms in ((1, 0), (2, 1)):
        _night(tmp_path, day, exact("ooms", ooms))
        _tensorflow(tmp_path, day, 3)
    found = gate_newest_run(tmp_path)
    assert [one.outcome for one in found.gates] == ["fine", "regression"]
    assert found.exit_code(0) == 1
    worst, other, between = found.text.splitlines()[:3]
    assert worst.startswith("gate: regression: 1 figure is worse")
    assert (other.startswith("gate: fine: nothing is worse"), between) == (True, "")
    assert found.text.count("gate: ") == 2
    alone = gate_newest_run(tmp_path, format="json")
    assert json.loads(alone.text)["verdicts"]["worse"] == 0
    assert len(alone.gates) == 1
    assert "gate it as text or md" in alone.not_held[0]
    (torch,) = (tmp_path / "night2").rglob("torch*/quick")
    (torch / "streams.x.json.gz").write_bytes(b"nothing")
    with pytest.raises(AllocmarkError, match="cannot be judged"):  # Not only of the newest line.
        gate_newest_run(tmp_path)
    (torch / "streams.x.json.gz").unlink()
    _tensorflow(tmp_path, 3, 3)
    _night(tmp_path, 3, exact("ooms", 1), driver="581.2")
    shutil.rmtree(next((tmp_path / "night3").rglob("torch*")))
    assert [one.outcome for one in gate_newest_run(tmp_path, last=1).gates] == ["fine"]


def test_what_against_names_counts_as_far_as_it_is_on_the_line(tmp_path: Path) -> None:
    record, copy = tmp_path / "record", tmp_path / "copy"
    _night(record, 1, exact("ooms", 0))
    _tensorflow(record, 1, 3)
    shutil.copytree(record, copy)
    _night(record, 2, exact("ooms", 0))
    found = gate_newest_run(record, against=[str(copy)])
    assert [one.outcome for one in found.gates] == ["fine"]
    for against, told in (
        (record / "night2", "is the run itself"),
        (next(copy.rglob("tensorflow*")), "holds no quick run of torch on test-gpu"),
    ):
        with pytest.raises(AllocmarkError, match=told) as error:
            gate_newest_run(record, against=[str(against)])
        assert error.value.exit_code == 2


def test_naming_what_shares_nothing_is_no_pass(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 0))
    other = document(exact("ooms", 0), probe="streams", run="r2", started="2026-11-02T00:00:00Z")
    _make_part(put(tmp_path / "night2" / "results", other))
    with pytest.raises(AllocmarkError, match="was measured before") as error:
        gate_newest_run(tmp_path, against=[str(tmp_path / "night1")])
    assert error.value.exit_code == 2


def test_a_newest_run_that_cannot_be_read_is_not_judged(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 0))
    path = _night(tmp_path, 2, exact("ooms", 0))
    (path.parent / "streams.x.json.gz").write_bytes(path.read_bytes()[:40])
    with pytest.raises(AllocmarkError, match=r"cannot be judged: .*streams\.x.* is damaged"):
        gate(tmp_path, RULES)


def test_a_figure_that_is_lost_is_a_regression(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 0), exact("retries", 0))
    _night(tmp_path, 2, exact("ooms", 0))
    found = gate(tmp_path, RULES)
    assert (found.outcome, [m.figure_id for m in found.lost]) == (
        "regression",
        ["latency/torch-native/retries"],
    )


def _make_part(path: Path) -> None:
    """Have the run that a document belongs to be one of filtered runs alone."""
    state = path.parent / "run.state"
    state.write_text(json.dumps({**json.loads(state.read_text()), "whole": False}))


def test_what_a_filtered_run_was_not_asked_for_is_not_lost(tmp_path: Path) -> None:
    earlier = _night(tmp_path, 1, exact("ooms", 0), exact("retries", 0))
    other = document(exact("ooms", 0), probe="streams", run="r1", started="2026-11-01T00:00:00Z")
    put(tmp_path / "night1" / "results", other)
    part = _night(tmp_path, 2, exact("ooms", 0), exact("retries", 0))
    _make_part(part)
    assert gate(tmp_path, RULES).outcome == "fine"
    _make_part(_night(tmp_path, 2, exact("ooms", 0)))  # A figure of what it has is lost.
    assert gate(tmp_path, RULES).outcome == "regression"
    earlier.unlink()
    with pytest.raises(NothingBeforeError, match="was measured before"):
        gate(tmp_path, RULES)


def test_a_filtered_run_is_no_baseline_of_a_whole_one(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 1))
    _make_part(_night(tmp_path, 2, exact("ooms", 9)))
    _night(tmp_path, 3, exact("ooms", 1))
    assert [run.started[:10] for run in gate(tmp_path, RULES).baselines] == ["2026-11-01"]


def test_an_unfinished_candidate_is_unclear(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 0), exact("retries", 0))
    _night(tmp_path, 2, exact("ooms", 0), finished=False)
    found = gate(tmp_path, RULES)
    assert found.outcome == "unclear"
    assert "nothing is worse, but the run has no end: " in found.sentence()


@pytest.mark.parametrize(("step", "outcome"), [(1.0, "fine"), (1.3, "regression")])
def test_only_what_is_unclear_is_measured_again(tmp_path: Path, step: float, outcome: str) -> None:
    """15 % in one run of a context may be noise: more runs say which."""

    def context(day: int, factor: float) -> Document:
        generator = np.random.default_rng(day)
        times = (factor * np.exp(generator.normal(0, 0.04, 10))).tolist()
        figure = timed(times, "stage_seconds", stage="context")
        return document(
            figure, probe="context", subject="driver", run=f"c{day}",
            started=f"2026-11-{day:02}T00:00:00Z",
        )  # fmt: skip

    for day in range(1, 6):
        put(tmp_path / f"n{day}", context(day, 1.0))
        put(tmp_path / f"n{day}", document(exact("ooms", 0), run=f"c{day}",
                                           started=f"2026-11-{day:02}T00:00:00Z"))  # fmt: skip
    put(tmp_path / "n6", context(6, 1.15))
    put(tmp_path / "n6", document(exact("ooms", 0), run="c6", started="2026-11-06T00:00:00Z"))
    asked: list[tuple[int, Sequence[tuple[str, str]]]] = []

    def rerun(run: RecordedRun, wanted: Sequence[tuple[str, str]], number: int) -> list[Path]:
        asked.append((number, wanted))
        return [put(tmp_path.parent / f"again-{step}-{number}", context(20 + number, step))]

    found = gate(tmp_path, RULES, last=1, rerun=rerun, rounds=6)
    assert found.outcome == outcome
    assert found.rounds == len(asked) > 0
    assert {wanted for _, documents in asked for wanted in documents} == {("context", "driver")}


def test_measuring_again_under_another_stack_is_refused(tmp_path: Path) -> None:
    figures = [hits(seed) for seed in (1, 2)]
    _night(tmp_path, 1, *figures[0])
    _night(tmp_path, 2, *(stepped(figure, 1.06) for figure in figures[1]))

    def rerun(run: RecordedRun, wanted: Sequence[tuple[str, str]], number: int) -> list[Path]:
        return [put(tmp_path.parent / "elsewhere", document(*figures[1]), "torch9-cuda13.0-py3.12")]

    with pytest.raises(AllocmarkError, match="this machine has torch9-cuda13.0-py3.12 now"):
        gate(tmp_path, RULES, rerun=rerun, rounds=1)


def test_exit_codes(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 1), *hits(1))
    _night(tmp_path, 2, exact("ooms", 1), *(stepped(figure, 1.06) for figure in hits(2)))
    found = gate_newest_run(tmp_path, last=1)
    assert found.gates[0].outcome == "unclear"
    assert (found.exit_code(0), found.exit_code(2)) == (0, 2)
    _night(tmp_path, 3, exact("ooms", 2))
    assert gate_newest_run(tmp_path, last=1).exit_code(2) == 1


def test_the_unclear_are_counted_the_same_way_throughout(tmp_path: Path) -> None:
    """The comparison counts all of them, the gate those of them that it can settle."""
    _night(tmp_path, 1, exact("ooms", 1), *hits(1))
    _night(tmp_path, 2, exact("ooms", 3), *hits(3))
    step = [stepped(figure, 1.04) for figure in hits(2)]
    _night(tmp_path, 3, exact("ooms", 2), *step)  # Between the two: no run tells which is right.
    found = gate_newest_run(tmp_path, last=2)
    (one,) = found.gates
    every = len(one.comparison.of("unclear"))
    near = sum(row.resolvable for row in one.comparison.rows)
    assert 0 < near < every
    assert all(row.verdict == "unclear" for row in one.comparison.rows if row.resolvable)
    assert f", {every} unclear, " in found.text
    assert f"nothing is worse, but {near} of {every} unclear figures may hide" in found.text


def test_a_read_only_record_is_enough(tmp_path: Path) -> None:
    _night(tmp_path, 1, exact("ooms", 1))
    _night(tmp_path, 2, exact("ooms", 1))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for path in before:
        if path.is_dir():
            path.chmod(0o555)
    try:
        assert gate_newest_run(tmp_path, last=1, format="json").gates[0].outcome == "fine"
        assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    finally:
        for path in before:
            if path.is_dir():
                path.chmod(0o755)


def test_the_projects_own_thresholds_are_found(tmp_path: Path) -> None:
    assert own_thresholds(tmp_path / "results") is None
    (tmp_path / "thresholds.toml").touch()
    assert own_thresholds(tmp_path / "results") == tmp_path / "thresholds.toml"


@budgets.budget
def test_a_large_record_is_gated_soon(tmp_path: Path) -> None:
    """2,000 files: only those of the runs in question are opened."""
    for day in range(1, 28):
        folder = _night(tmp_path, day, exact("ooms", 1)).parent
        content = next(folder.glob("*.gz")).read_bytes()
        for number in range(73):
            (folder / f"latency.more-{number}.json.gz").write_bytes(content)
    assert sum(len(run.documents()) for run in runs_below(tmp_path)) > 1_950
    begin = time.process_time()
    assert gate(tmp_path, RULES).outcome == "fine"
    budgets.note("gate of 2,000 documents", time.process_time() - begin, 5)
