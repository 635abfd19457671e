"""``allocmark run`` with a filter: each document is measured under the stack of its framework."""

from __future__ import annotations

import errno
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from allocmark import report
from allocmark.asv import process
from allocmark.machine import frameworks
from allocmark.machine.frameworks import Share
from allocmark.machine.places import CONFIG
from allocmark.measure import run, run_outcome
from allocmark.measure.run import Options
from allocmark.measure.session import Session
from allocmark.measure.stopping import RunStoppedError
from allocmark.schema import documents, run_state
from allocmark.schema.documents import Failure
from allocmark.schema.figure import Figure
from allocmark.system.errors import AllocmarkError, DiskFullError
from tests.support.compare_samples import document


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

    def measure(session: Session, chosen: Sequence[Any], *rest: object) -> Iterator[Path]:
        if session not in opened:
            opened.append(session)
        yield from (Path(experiment.name) for experiment in chosen)

    both = frameworks.TRACKED
    monkeypatch.setattr(frameworks, "found", lambda: both)
    monkeypatch.setattr(frameworks, "shares", lambda: [Share(name, both) for name in both])
    monkeypatch.setattr(run, "read_stack", lambda framework, device: FakeStack(framework))
    monkeypatch.setattr(run, "measure_experiments", measure)
    monkeypatch.setattr(run, "disturbances", list)
    monkeypatch.setattr(report, "write_report", lambda results, out: out)
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
    run.run(Options("quick", ["latency"], subjects, results=tmp_path / "results"))
    assert [session.stack.framework for session in sessions] == stacks
    assert len({session.run for session in sessions}) == 1


def test_an_experiment_that_knows_none_of_the_subjects_is_said(
    sessions: list[Session], tmp_path: Path
) -> None:
    asked = Options(
        results=tmp_path, experiments=("latency", "context"), subjects=("torch-native",)
    )
    with pytest.raises(AllocmarkError, match="context is not measured of torch-native, but of dri"):
        run.run(asked)
    # What is a subject of another experiment is no unknown name.
    asked = Options(results=tmp_path, experiments=("latency",), subjects=("driver",))
    with pytest.raises(AllocmarkError, match="latency is not measured of driver, but of cuda-mal"):
        run.run(asked)
    assert not sessions


def test_a_first_document_of_a_stack_joins_the_run_of_the_other(
    sessions: list[Session], tmp_path: Path
) -> None:
    results = tmp_path / "results"
    state = run_state.begin([results / "gpu" / "stack-of-torch" / "quick"])
    run.run(Options("quick", ["latency"], ["tf-growth"], results=results))
    assert [session.run for session in sessions] == [state.id]


def test_a_filtered_run_that_was_cut_off_is_carried_on_by_the_same_command(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    mine.write_text(MINE)
    results = tmp_path / "results"

    def asked(*experiments: str, fresh: bool = False) -> Options:
        return Options("quick", experiments, ["torch-native"], mine, results, fresh)

    def stopped(*rest: object) -> Iterator[Path]:
        raise KeyboardInterrupt
        yield

    marked: list[Any] = []
    with monkeypatch.context() as patch:
        patch.setattr(run, "measure_experiments", stopped)
        patch.setattr(run, "mark_rest", lambda *what: marked.append(what))
        with pytest.raises(RunStoppedError):
            run.run(asked("latency", "streams"))
    ((_, chosen, _, only),) = marked
    assert [experiment.name for experiment in chosen] == ["latency", "streams"]
    assert only == ["torch-native"]  # Nothing is said of what nobody asked for.
    begun = run_state.read(results / "gpu" / "stack-of-torch" / "quick")
    assert begun and begun.finished is None
    run.run(asked("latency"))  # Another command has nothing to carry on.
    run.run(asked("streams", "latency"))
    run.run(asked("streams", "latency"))  # It came to its end.
    assert [session.takes_over for session in sessions] == [False, True, False]
    assert [sessions[1].since] == list(begun.parts.values())
    assert {session.run for session in sessions} == {begun.id}
    ended = run_state.read(results / "gpu" / "stack-of-torch" / "quick")
    assert ended and ended.finished and not ended.parts


def test_an_allocator_file_that_was_edited_is_measured_again(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    mine = tmp_path / "mine.py"
    options = Options("quick", ["latency"], ["torch-native"], mine, tmp_path / "results")
    for text in (MINE, f"{MINE}  # edited"):
        mine.write_text(text)
        monkeypatch.setattr(run_state, "finish_part", lambda folder, asked: None)
        run.run(options)
    assert [session.takes_over for session in sessions] == [False, False]


def test_a_run_without_a_single_figure_is_unclear_and_names_the_page(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    monkeypatch.setattr(run_outcome, "_has_a_figure", lambda path: False)
    with pytest.raises(run_outcome.NothingMeasuredError, match=str(tmp_path / "reports")) as raised:
        run.run(Options("quick", ["latency"], ["torch-native"], results=tmp_path / "results"))
    assert raised.value.exit_code == 3


NO_CACHE = "/cache/allocmark cannot be written (Read-only file system): set XDG_CACHE_HOME to a f"
MINE = "from allocmark.allocators.cuda_malloc import CudaMalloc; ALLOCATORS = (CudaMalloc('mine'),)"


@pytest.mark.parametrize(
    ("named", "stage", "lost"),
    [
        ((), "build", True),  # Whatever was asked for: the user can mend it.
        ((), "start", False),  # Such as a framework that is not there.
        (("context", "latency"), "start", True),
        (("context",), "start", False),
    ],
)
def test_an_experiment_lost_as_a_whole_ends_the_command_unclear_with_the_reason(
    tmp_path: Path, named: Sequence[str], stage: str, lost: bool
) -> None:
    figure = Figure("x_bytes", "bytes", "exact", "meter", {}, 1.0)
    documents_of = {
        "context.driver": document(figure),
        "context.torch": document(failures=[Failure("build", "lost, but not as a whole")]),
        "latency.a": document(failures=[Failure(stage, NO_CACHE)]),
        "latency.b": document(failures=[Failure(stage, NO_CACHE)]),
    }
    paths = [tmp_path / f"{name}{documents.SUFFIX}" for name in documents_of]
    for path, one in zip(paths, documents_of.values(), strict=True):
        documents.write(path, one)
    if not lost:
        run_outcome.refuse_losses(paths, named, Path("page"))
        return
    with pytest.raises(run_outcome.NothingMeasuredError) as raised:
        run_outcome.refuse_losses(paths, named, Path("page"))
    told = f"nothing of latency could be measured: {NO_CACHE}; the rest is saved (page)"
    assert (str(raised.value), raised.value.exit_code) == (told, 3)


def test_a_document_that_was_named_and_is_lost_is_no_success_beside_one_that_is_not(
    tmp_path: Path,
) -> None:
    figure = Figure("x_bytes", "bytes", "exact", "meter", {}, 1.0)
    killed = Failure("start", "the process was ended by SIGKILL")
    paths = [tmp_path / f"latency.{name}{documents.SUFFIX}" for name in ("torch-native", "b")]
    documents.write(paths[0], document(failures=[killed]))
    documents.write(paths[1], document(figure))
    run_outcome.refuse_losses(paths, ("latency",), Path("page"))
    with pytest.raises(
        run_outcome.NothingMeasuredError, match=f"latency of torch-native .*{killed.reason}"
    ):
        run_outcome.refuse_losses(paths, ("latency",), Path("page"), each=True)


def test_what_can_be_mended_is_the_reason_among_others(tmp_path: Path) -> None:
    paths = []
    for name, failure in {"a": Failure("build", NO_CACHE), "b": Failure("start", "b")}.items():
        paths.append(tmp_path / f"latency.{name}{documents.SUFFIX}")
        documents.write(paths[-1], document(failures=[failure]))
    with pytest.raises(run_outcome.NothingMeasuredError, match=f"measured: {re.escape(NO_CACHE)}"):
        run_outcome.refuse_losses(paths, (), Path("page"))


def test_a_disk_that_fills_up_at_the_report_names_what_writes_it(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    def full(results: Path, out: Path) -> Path:
        raise OSError(errno.ENOSPC, "No space left on device", str(out / "index.html"))

    monkeypatch.setattr(report, "write_report", full)
    results = tmp_path / "results"
    with pytest.raises(DiskFullError, match=f"allocmark report --results {results}$") as raised:
        run.run(Options("quick", ["latency"], ["torch-native"], results=results))
    assert raised.value.exit_code == 3
    state = run_state.read(results / "gpu" / "stack-of-torch" / "quick")
    assert state and state.finished  # Nothing has to be measured again.


def test_a_report_that_will_have_no_place_is_said_before_anything_is_measured(
    sessions: list[Session], tmp_path: Path
) -> None:
    (tmp_path / "mine-reports").touch()
    with pytest.raises(AllocmarkError, match="mine-reports is no folder") as raised:
        run.run(Options("quick", ["latency"], ["torch-native"], results=tmp_path / "mine"))
    assert raised.value.exit_code == 2
    assert not sessions


def test_ctrl_c_at_the_report_says_what_writes_it(
    monkeypatch: pytest.MonkeyPatch, sessions: list[Session], tmp_path: Path
) -> None:
    def stopped(results: Path, out: Path) -> Path:
        raise KeyboardInterrupt

    monkeypatch.setattr(report, "write_report", stopped)
    with pytest.raises(RunStoppedError, match="all is measured and saved; write the report: "):
        run.run(Options("quick", ["latency"], ["torch-native"], results=tmp_path / "results"))


@pytest.mark.parametrize(
    ("code", "said"),
    [(0, "all is measured and saved"), (3, "no report"), (1, "goes on"), (-2, "goes on")],
)
def test_ctrl_c_while_asv_runs_is_always_unclear_and_said_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: int, said: str
) -> None:
    class Asv:
        returncode: int | None = None

        def __init__(self, *_: object, **__: object) -> None:
            self._waits = 0

        def wait(self) -> None:
            self._waits += 1
            if self._waits == 1:
                raise KeyboardInterrupt
            self.returncode = code

    (tmp_path / CONFIG).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", Asv)
    with pytest.raises(AllocmarkError, match=said) as raised:
        run.run(Options("quick"))
    assert raised.value.exit_code == 3
    assert raised.value.is_reported is (code == 3)  # asv's plugin has said it.


def test_ctrl_c_while_the_report_is_imported_waits_for_asv_and_imports_nothing_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    imports: list[str] = []

    class Asv:
        returncode: int | None = None

        def __init__(self, *_: object, **__: object) -> None:
            pass

        def wait(self) -> None:
            self.returncode = 0

    def interrupted(name: str) -> None:
        imports.append(name)
        raise KeyboardInterrupt

    (tmp_path / CONFIG).touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subprocess, "Popen", Asv)
    monkeypatch.setattr(importlib, "import_module", interrupted)
    with pytest.raises(RunStoppedError, match="all is measured and saved"):
        run.run(Options("quick"))
    assert len(imports) == 1


@pytest.mark.parametrize(("code", "told"), [(2, True), (3, True), (1, False), (-9, False)])
def test_what_asv_has_said_is_not_said_again(code: int, told: bool) -> None:
    error = run.AsvEndedError(code)
    assert error.is_reported is told
    assert error.exit_code == (code if code > 0 else 3)


def test_ctrl_c_while_asv_is_imported_shows_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("asv.main.main", stopped)
    monkeypatch.setattr(sys, "argv", ["x", "run"])
    assert process.main() == 130
