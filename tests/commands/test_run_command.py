"""``allocmark run`` with a filter: each document is measured under the stack of its framework."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from allocmark import report
from allocmark.commands import run_command
from allocmark.commands.run_command import RunOptions
from allocmark.machine import frameworks
from allocmark.machine.frameworks import Share
from allocmark.measure import run, run_outcome
from allocmark.measure.session import Session
from allocmark.measure.stopping import RunStoppedError
from allocmark.schema import run_state
from allocmark.system.errors import AllocmarkError, DiskFullError


@dataclass(frozen=True)
class FakeStack:
    framework: str
    machine: str = "gpu"

    @property
    def name(self) -> str:
        return f"stack-of-{self.framework}"


@pytest.fixture
def sessions(monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Both frameworks are there; returns the sessions in which something would be measured."""
    opened: list[Session] = []

    def measure(session: Session, chosen: Sequence[Any]) -> Iterator[Path]:
        if session not in opened:
            opened.append(session)
        yield from (Path(experiment.name) for experiment in chosen)

    both = frameworks.TRACKED
    monkeypatch.setattr(frameworks, "found", lambda: both)
    monkeypatch.setattr(frameworks, "shares", lambda: [Share(name, both) for name in both])
    monkeypatch.setattr(run, "read_stack", lambda framework, device: FakeStack(framework))
    monkeypatch.setattr(run, "measure_experiments", measure)
    monkeypatch.setattr(run, "disturbances", list)
    monkeypatch.setattr(report, "write_pages", lambda results, out: (out, None))
    monkeypatch.setattr(run_command, "summarize", lambda *_: None)
    monkeypatch.setattr(run_outcome, "_has_a_figure", lambda path: True)
    return opened


@pytest.mark.parametrize(
    ("subjects", "stacks"),
    [
        (["tf-growth"], ["tensorflow"]),
        (["torch-native"], ["torch"]),
        (["cuda-malloc"], ["torch"]),
        (["tf-growth", "torch-native"], ["torch", "tensorflow"]),
    ],
)
def test_a_subject_is_measured_under_the_stack_of_its_framework(
    sessions: list[Session], tmp_path: Path, subjects: list[str], stacks: list[str]
) -> None:
    run_command.run(RunOptions("quick", ["latency"], subjects, results=tmp_path / "results"))
    assert [session.stack.framework for session in sessions] == stacks
    assert len({session.run for session in sessions}) == 1


def test_an_experiment_that_knows_none_of_the_subjects_is_said(
    sessions: list[Session], tmp_path: Path
) -> None:
    asked = RunOptions(
        results=tmp_path, experiments=("latency", "context"), subjects=("torch-native",)
    )
    with pytest.raises(AllocmarkError, match="context is not measured of torch-native, but of dri"):
        run_command.run(asked)
    # What is a subject of another experiment is no unknown name.
    asked = RunOptions(results=tmp_path, experiments=("latency",), subjects=("driver",))
    with pytest.raises(AllocmarkError, match="latency is not measured of driver, but of cuda-mal"):
        run_command.run(asked)
    assert not sessions


def test_a_first_document_of_a_stack_joins_the_run_of_the_other(
    sessions: list[Session], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    state = run_state.begin([results / "gpu" / "stack-of-torch" / "quick"])
    run_command.run(RunOptions("quick", ["latency"], ["tf-growth"], results=results))
    assert [session.run for session in sessions] == [state.id]


def test_a_filtered_run_that_was_cut_off_is_carried_on_by_the_same_command(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    results = tmp_path / "results"

    def asked(*experiments: str, fresh: bool = False) -> RunOptions:
        return RunOptions("quick", experiments, ["torch-native"], mine, results, fresh)

    def stopped(*rest: object) -> Iterator[Path]:
        raise KeyboardInterrupt
        yield

    marked: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(run, "measure_experiments", stopped)
        patch.setattr(run, "mark_rest", lambda *what: marked.append(what))
        with pytest.raises(RunStoppedError):
            run_command.run(asked("latency", "streams"))
    ((session, chosen),) = marked
    assert [experiment.name for experiment in chosen] == ["latency", "streams"]
    assert session.only == ["torch-native"]  # Nothing is said of what nobody asked for.
    begun = run_state.read(results / "gpu" / "stack-of-torch" / "quick")
    assert begun and begun.finished is None
    run_command.run(asked("latency"))  # Another command has nothing to carry on.
    run_command.run(asked("streams", "latency"))
    run_command.run(asked("streams", "latency"))  # It came to its end.
    assert [session.takes_over for session in sessions] == [False, True, False]
    assert [sessions[1].since] == list(begun.parts.values())
    assert {session.run for session in sessions} == {begun.id}
    ended = run_state.read(results / "gpu" / "stack-of-torch" / "quick")
    assert ended and ended.finished and not ended.parts


def test_an_allocator_file_that_was_edited_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    options = RunOptions("quick", ["latency"], ["torch-native"], mine, tmp_path / "results")
    for text in (MINE, f"{MINE}  # edited"):
        mine.write_text(text)
        monkeypatch.setattr(run_state, "finish_part", lambda folder, asked: None)
        run_command.run(options)
    assert [session.takes_over for session in sessions] == [False, False]


def test_a_run_without_a_single_figure_is_unclear_and_names_the_page(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    monkeypatch.setattr(run_outcome, "_has_a_figure", lambda path: False)
    with pytest.raises(run_outcome.NothingMeasuredError, match=str(tmp_path / "reports")) as raised:
        run_command.run(
            RunOptions("quick", ["latency"], ["torch-native"], results=tmp_path / "results")
        )
    assert raised.value.exit_code == 3


MINE = "from allocmark.allocators.cuda_malloc import CudaMalloc; ALLOCATORS = (CudaMalloc('mine'),)"


def test_a_disk_that_fills_up_at_the_report_names_what_writes_it(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    def full(results: Path, out: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(out / "index.html"))

    monkeypatch.setattr(report, "write_pages", full)
    results = tmp_path / "results"
    with pytest.raises(DiskFullError, match=f"allocmark report --results {results}$") as raised:
        run_command.run(RunOptions("quick", ["latency"], ["torch-native"], results=results))
    assert raised.value.exit_code == 3
    state = run_state.read(results / "gpu" / "stack-of-torch" / "quick")
    assert state and state.finished  # Nothing has to be measured again.


def test_a_report_that_will_have_no_place_is_said_before_anything_is_measured(
    sessions: list[Session], tmp_path: Path
) -> None:
    (tmp_path / "mine-reports").touch()
    with pytest.raises(AllocmarkError, match="mine-reports is no folder") as raised:
        run_command.run(
            RunOptions("quick", ["latency"], ["torch-native"], results=tmp_path / "mine")
        )
    assert raised.value.exit_code == 2
    assert not sessions


def test_ctrl_c_at_the_report_says_what_writes_it(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    def stopped(results: Path, out: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "write_pages", stopped)
    with pytest.raises(RunStoppedError, match="all is measured and saved; write the report: "):
        run_command.run(
            RunOptions("quick", ["latency"], ["torch-native"], results=tmp_path / "results")
        )
