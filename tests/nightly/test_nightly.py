"""A night from end to end, with the measuring replaced: baselines, factors, resuming, merging."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from allocmark.compare.model import Change
from allocmark.compare.thresholds import load
from allocmark.gate.gating import gate
from allocmark.nightly import night, state
from allocmark.nightly.attribution import attribute
from allocmark.nightly.factors import Factors, factors
from allocmark.nightly.night import NightOptions, run_night
from allocmark.nightly.state import Night
from allocmark.store.runs import runs_below
from allocmark.system.errors import AllocmarkError
from tests.support.compare_samples import CONDITIONS, FACTS, STACK, document, exact, hits, put

Measure = Callable[[NightOptions, Night], None]
_DAY = iter(range(1, 10_000))


def _measured(value: float, driver: str = "580.1", torch: str = "2.11.0") -> Measure:
    """Return what stands for measuring: one document of that value, on that stack."""

    def measure(options: NightOptions, of: Night) -> None:
        facts = {**FACTS, "driver": driver, "torch": torch, "framework_version": torch}
        stamp = f"2026-11-01T00:{next(_DAY) % 60:02}:00Z"
        one = document(exact("ooms", value), run=of.folder.name, started=stamp, facts=facts)
        put(of.results, one, f"torch{torch}-driver{driver}")

    return measure


def _night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measure: Measure, lane: str = "pinned"
) -> tuple[Night, str]:
    monkeypatch.setattr(night, "_measure", measure)
    said: list[str] = []
    done = run_night(NightOptions(tmp_path / "record", tmp_path / "scratch", lane), said.append)
    return done, said[-1]


def test_the_first_night_has_nothing_to_be_held_against(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, text = _night(tmp_path, monkeypatch, _measured(1))
    assert (done.outcome, done.finished) == ("first", True)
    assert text.startswith("# pinned lane: first night")


def test_a_part_that_no_night_measured_before_is_a_first_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(options: NightOptions, of: Night) -> None:
        one = document(exact("ooms", 1), probe="streams", run="o", started="2026-11-02T00:00:00Z")
        path = put(of.results, one, "torch2.11.0-driver580.1")
        held = json.loads((path.parent / "run.state").read_text())
        (path.parent / "run.state").write_text(json.dumps({**held, "whole": False}))

    _night(tmp_path, monkeypatch, _measured(1))
    assert _night(tmp_path, monkeypatch, other)[0].outcome == "first"


def test_a_regression_is_told_until_it_is_accepted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _night(tmp_path, monkeypatch, _measured(1))
    worse, text = _night(tmp_path, monkeypatch, _measured(2, driver="581.2"))
    assert worse.outcome == "regression"
    assert text.startswith("# pinned lane, test-gpu: regression: 1 figure is worse\n")
    assert "Moved: driver 580.1 to 581.2." in text
    assert "Only the machine moved: driver 580.1 to 581.2." in text
    assert "    allocmark run --experiment latency --subject torch-native" in text
    # It is no baseline for the next one, which finds it again,
    assert _night(tmp_path, monkeypatch, _measured(2, driver="581.2"))[0].outcome == "regression"
    # until somebody says that it is wanted.
    (worse.folder / state.ACCEPTED).touch()
    assert _night(tmp_path, monkeypatch, _measured(2, driver="581.2"))[0].outcome == "fine"


@pytest.mark.parametrize("worse", [1, 2])
def test_that_nothing_moved_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, worse: float
) -> None:
    _night(tmp_path, monkeypatch, _measured(1))
    _, text = _night(tmp_path, monkeypatch, _measured(worse))
    assert text.count("Nothing in the stack moved") == 1


@pytest.mark.parametrize(("code", "ended"), [(1, 2), (2, 2), (3, 3), (130, 3)])
def test_a_measuring_that_was_stopped_stops_the_night(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, ended: int
) -> None:
    monkeypatch.setattr("allocmark.system.foreground.run", lambda *_: code)
    with pytest.raises(AllocmarkError, match="the same command carries the night on") as raised:
        run_night(NightOptions(tmp_path / "record", tmp_path / "scratch", "pinned"), print)
    assert raised.value.exit_code == ended


def test_what_is_worst_of_several_stacks_is_said_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def both(ooms: float) -> Measure:
        def measure(options: NightOptions, of: Night) -> None:
            for framework, value in (("tensorflow", 1.0), ("torch", ooms)):
                stamp = f"2026-11-01T00:{next(_DAY) % 60:02}:00Z"
                facts = {**FACTS, "framework": framework}
                one = document(exact("ooms", value), run=of.folder.name, started=stamp, facts=facts)
                put(of.results, one, framework)

        return measure

    _night(tmp_path, monkeypatch, both(1))
    worse, text = _night(tmp_path, monkeypatch, both(2))
    headings = [line for line in text.splitlines() if line.startswith("# ")]
    assert headings == [
        "# pinned lane, test-gpu: regression: 1 figure is worse",
        "# pinned lane, test-gpu: fine: nothing is worse",
    ]
    assert text.startswith(headings[0])
    assert worse.outcome == "regression"


def test_no_night_replaces_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = _night(tmp_path, monkeypatch, _measured(1))
    before = {path: path.read_bytes() for path in first.folder.rglob("*") if path.is_file()}
    _night(tmp_path, monkeypatch, _measured(1, driver="581.2"))
    _night(tmp_path, monkeypatch, _measured(1))
    assert {path: path.read_bytes() for path in before} == before
    assert len(state.nights_of(tmp_path / "record", "pinned")) == 3


def test_lanes_are_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _night(tmp_path, monkeypatch, _measured(1))
    assert _night(tmp_path, monkeypatch, _measured(2), "rolling")[0].outcome == "first"


def test_a_night_that_was_cut_off_is_carried_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(options: NightOptions, of: Night) -> None:
        raise AllocmarkError("measuring ended with exit code 3")

    _night(tmp_path, monkeypatch, _measured(1))
    with pytest.raises(AllocmarkError, match="exit code 3"):
        _night(tmp_path, monkeypatch, crash)
    (cut,) = (n for n in state.nights_of(tmp_path / "record", "pinned") if not n.finished)
    done, _ = _night(tmp_path, monkeypatch, _measured(1))
    assert (done.folder, done.outcome) == (cut.folder, "fine")


def test_what_is_measured_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(night, "_gate", crash)
    with pytest.raises(KeyboardInterrupt):
        _night(tmp_path, monkeypatch, _measured(1))
    monkeypatch.undo()
    done, _ = _night(tmp_path, monkeypatch, crash)
    assert done.outcome == "first"


def test_a_run_that_an_update_cut_off_is_not_gated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def updated(options: NightOptions, of: Night) -> None:
        put(of.results, document(exact("ooms", 9)), "torch2.11.0-driver1", finished=False)
        _measured(1)(options, of)

    _night(tmp_path, monkeypatch, _measured(1))
    assert _night(tmp_path, monkeypatch, updated)[0].outcome == "fine"


def test_another_hosts_night_is_left_alone(tmp_path: Path) -> None:
    other = state.begin(tmp_path, "pinned", "quick", "another host")
    assert state.begin(tmp_path, "pinned", "quick", "this host").folder != other.folder
    assert state.begin(tmp_path, "pinned", "quick", "another host").folder == other.folder


def test_a_night_goes_on_wherever_its_kind_of_machine_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def crash(options: NightOptions, of: Night) -> None:
        raise AllocmarkError("the node went down")

    monkeypatch.setattr("platform.node", lambda: "node1")
    nowhere = night.machine_digest()
    monkeypatch.setenv("ALLOCMARK_MACHINE", "h100")
    with pytest.raises(AllocmarkError, match="went down"):
        _night(tmp_path, monkeypatch, crash)
    monkeypatch.setattr("platform.node", lambda: "node2")
    done, _ = _night(tmp_path, monkeypatch, _measured(1))
    assert [n.folder for n in state.nights_of(tmp_path / "record", "pinned")] == [done.folder]
    monkeypatch.delenv("ALLOCMARK_MACHINE")
    assert night.machine_digest() not in (nowhere, done.host)  # Without a name it is the host's.


def test_two_nodes_do_not_carry_one_night_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def second(options: NightOptions, of: Night) -> None:
        with pytest.raises(AllocmarkError, match="wait for its end"):
            run_night(options, print)
        _measured(1)(options, of)

    assert _night(tmp_path, monkeypatch, second)[0].outcome == "first"


def test_a_lane_is_a_plain_word(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match="no name of a lane"):
        state.begin(tmp_path, "../elsewhere", "quick", "h")


def test_factors_are_sorted() -> None:
    moved = factors(
        [Change("driver", "1", "2"), Change("torch", "2.11", "2.12"), Change("kernel", "6", "7"),
         Change("framework_version", "2.11", "2.12")]
    )  # fmt: skip
    assert [change.name for change in moved.system] == ["driver", "kernel"]
    assert [change.name for change in moved.software] == ["torch"]


@pytest.mark.parametrize(("old", "culprit"), [(2.0, "The machine moved"), (1.0, "The software")])
def test_the_old_software_tells_which_factor_it_is(
    tmp_path: Path, old: float, culprit: str
) -> None:
    put(tmp_path / "r" / "a", document(exact("ooms", 1)))
    late = document(exact("ooms", 2), run="r2", started="2026-11-02T00:00:00Z")
    put(tmp_path / "r" / "b", late, "torch2.12.0-driver581.2")
    rules = load()
    found = gate(tmp_path / "r", rules)
    moved = Factors((Change("driver", "1", "2"),), (Change("torch", "2.11", "2.12"),))

    def measure(wanted: Sequence[tuple[str, str]]) -> list[Path]:
        assert list(wanted) == [("latency", "torch-native")]
        return [put(tmp_path / "again", document(exact("ooms", old), run="r3"))]

    assert attribute(found, moved, measure, rules).startswith(culprit)
    assert "cannot be told apart" in attribute(found, moved, None, rules)
    assert attribute(found, Factors((), moved.software), None, rules).startswith("Only the s")


@pytest.mark.parametrize(("old", "culprit"), [(1.4, "The machine moved"), (1.0, "The software")])
def test_means_are_blamed_too(tmp_path: Path, old: float, culprit: str) -> None:
    """Hits are 40 % slower throughout: no figure by itself is beyond what a process differs by."""
    for day in (1, 2, 3):
        good = document(*hits(day), run=f"r{day}", started=f"2026-11-0{day}T00:00:00Z")
        put(tmp_path / "r" / f"{day}", good)
    late = document(*hits(4, process=1.4), run="r4", started="2026-11-04T00:00:00Z")
    put(tmp_path / "r" / "4", late, "torch2.12.0-driver581.2")
    rules = load()
    found = gate(tmp_path / "r", rules, last=3)
    assert [mean.scope for mean in found.worse_means][:2] == ["all", "allocator"]
    moved = Factors((Change("driver", "1", "2"),), (Change("torch", "2.11", "2.12"),))

    def measure(wanted: Sequence[tuple[str, str]]) -> list[Path]:
        assert list(wanted) == [("latency", "torch-native")]
        return [put(tmp_path / "again", document(*hits(5, process=old), run="r5"))]

    assert attribute(found, moved, measure, rules).startswith(culprit)


def _git(folder: Path, *words: str) -> str:
    identity = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    done = subprocess.run(
        ["git", *identity, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout


def test_results_of_many_machines_merge_without_a_conflict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nights of any machines, the same kind of GPU among them, and results under two aliases."""
    origin = tmp_path / "origin"
    origin.mkdir()
    _git(origin, "init", "--quiet", "--initial-branch=main")
    _git(origin, "commit", "--quiet", "--allow-empty", "-m", "start")
    for number, alias in enumerate(("gpu-lab1", "gpu-lab2", "gpu-lab3")):
        clone = tmp_path / alias
        _git(tmp_path, "clone", "--quiet", str(origin), alias)
        _git(clone, "checkout", "--quiet", "-b", alias)
        monkeypatch.setattr(night, "_measure", _measured(number))
        monkeypatch.setattr(night, "machine_digest", lambda name=alias: name)
        run_night(NightOptions(clone / "nightly", tmp_path / "scratch" / alias, "pinned"), print)
        facts: Mapping[str, Any] = {**FACTS, "machine": alias}
        for driver in ("580.1", "581.2"):
            one = document(exact("ooms", number), facts=facts, conditions=CONDITIONS)
            put(clone / "results", one, STACK.replace("580.1", driver))
        _git(clone, "add", ".")
        _git(clone, "commit", "--quiet", "-m", f"data: {alias}")
        _git(clone, "push", "--quiet", "origin", alias)
    _git(origin, "merge", "--quiet", "--no-edit", "gpu-lab1")
    _git(origin, "merge", "--quiet", "--no-edit", "gpu-lab2")
    _git(origin, "merge", "--quiet", "--no-edit", "gpu-lab3")
    assert len(state.nights_of(origin / "nightly", "pinned")) == 3
    assert len(runs_below(origin / "results")) == 6


def test_the_command_says_one_sentence(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "allocmark.nightly", "--lane", "Bad Lane"]
    done = subprocess.run(
        [*command, "--record", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr.startswith("allocmark: 'Bad Lane' is no name of a lane")


def test_a_record_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "record").write_text("a file")
    monkeypatch.setattr(night, "_measure", _measured(1))
    with pytest.raises(OSError, match="record"):
        run_night(NightOptions(tmp_path / "record", tmp_path / "scratch", "pinned"), print)


def test_what_a_night_leaves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _night(tmp_path, monkeypatch, _measured(1))
    done, text = _night(tmp_path, monkeypatch, _measured(1))
    assert (done.folder / night.SUMMARY).read_text() == text
    assert json.loads((done.folder / night.COMPARISON).read_bytes())["verdicts"]["same"] == 1
    assert json.loads((done.folder / state.FILE).read_bytes())["outcome"] == "fine"


def test_words_that_are_not_behind_two_dashes_narrow_no_night(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from allocmark.nightly.__main__ import nightly
    from allocmark.system.command_line import run_command

    monkeypatch.setattr("sys.argv", ["nightly", "--lane", "pinned", "streams"])
    assert run_command(nightly) == 2
    assert "stand after --" in capsys.readouterr().err
