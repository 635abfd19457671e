"""Run sessions: what is written, taken over, marked, and saved when a run is stopped."""

from __future__ import annotations

import errno
import gzip
import json
import os
import re
import signal
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from allocmark.allocators.base import Allocator
from allocmark.experiments.core.experiment import PROFILES, Experiment, Profile
from allocmark.experiments.core.recorder import Recorder
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.machine.frameworks import Share
from allocmark.measure import session
from allocmark.measure.progress import Progress
from allocmark.measure.session import Session, mark_rest, measure_experiments
from allocmark.measure.stopping import RunStoppedError, stoppable
from allocmark.schema import documents, run_state
from allocmark.schema.documents import Document, Failure
from allocmark.schema.figure import Figure, Series
from allocmark.schema.notes import NOT_REACHED
from allocmark.system.errors import NewerDocumentError, NotMeasurableError, UnreadableDocumentError

FIGURE = Figure("x_bytes", "bytes", "exact", "meter", {}, 1.0)


@dataclass(frozen=True)
class FakeStack:
    """As much of a stack as a session reads."""

    machine: str = "GPU"
    name: str = "stack"
    emulated: bool = True
    driver: str = "1"

    def to_json(self) -> dict[str, Any]:
        return {"driver": self.driver}


class Conditions:
    def to_json(self) -> dict[str, Any]:
        return {"clock": 1}


class Fake(Experiment):
    """Three subjects, two children each."""

    name = "fake"

    def subjects(self, allocators: Sequence[Allocator], profile: Profile) -> list[str]:
        return ["a", "b", "c"]

    def requests(
        self, subject: str, profile: Profile, allocators: Sequence[Allocator]
    ) -> list[Request]:
        return [Request(self.name, subject, 1.0), Request(self.name, subject, 1.0)]

    def prepare(self, request: Request) -> Callable[[Recorder], None]:
        raise AssertionError("runs in children only")


Launch = Callable[..., Generator[ChildOutcome, None, None]]


def answering(*, note: str = "n", failure: str | None = None) -> Launch:
    def launch(requests: Sequence[Request]) -> Generator[ChildOutcome, None, None]:
        for number, request in enumerate(requests):
            failures = [Failure("start", failure)] if failure else []
            figures = [] if failure else [FIGURE]
            series = [Series("curve", {}, {"x": [number]})]
            yield ChildOutcome(
                request, 0.1, figures, series, failures, {"same": note, "number": number}
            )

    return launch


def answering_nothing(requests: Sequence[Request]) -> Generator[ChildOutcome, None, None]:
    yield from ()


@pytest.fixture
def opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(session, "read_conditions", lambda device: Conditions())
    monkeypatch.setattr(session, "launch_all", answering())
    stack: Any = FakeStack()
    return Session(tmp_path, stack, PROFILES["quick"], "run-1", Progress(StringIO()))


def measured(opened: Session, experiment: Experiment | None = None) -> list[Document]:
    return [documents.read(p) for p in measure_experiments(opened, [experiment or Fake()])]


class Mixed(Fake):
    """Subjects of several frameworks."""

    def framework(self, subject: str, allocators: Sequence[Allocator]) -> str:
        return {"a": "torch", "b": "tensorflow", "c": "cuda"}[subject]


@pytest.mark.parametrize(
    ("share", "expected"),
    [
        (None, ["a", "b", "c"]),
        (Share("torch", ("torch", "tensorflow")), ["a", "c"]),
        (Share("tensorflow", ("torch", "tensorflow")), ["b"]),
        (Share("torch", ("torch",)), ["a", "b", "c"]),
    ],
)
def test_a_stack_holds_the_subjects_of_its_share(
    opened: Session, share: Share | None, expected: list[str]
) -> None:
    found = measured(replace(opened, share=share), Mixed())
    assert [document.subject for document in found] == expected
    mark_rest(replace(opened, share=share), [Mixed()])
    assert len(list(opened.results.rglob("*.json.gz"))) == len(expected)


def test_a_document_says_what_it_was_taken_under(opened: Session) -> None:
    (first, *_) = measured(opened)
    assert (first.probe, first.subject, first.profile, first.run) == ("fake", "a", "quick", "run-1")
    assert first.stack == {"driver": "1"}
    assert first.emulated
    assert first.conditions["before"] == first.conditions["after"] == {"clock": 1}
    assert first.conditions["notes"] == {"same": "n", "number": [0, 1]}
    again = "allocmark run --experiment fake --subject a --profile quick"
    assert first.command == f"allocmark emulate -- {again}"
    assert len(first.figures) == len(first.series) == 2


def test_only_the_chosen_subjects_are_measured(opened: Session) -> None:
    paths = list(measure_experiments(replace(opened, only=["c", "z"]), [Fake()]))
    assert [path.name for path in paths] == ["fake.c.json.gz"]


def test_a_run_carried_on_takes_over_what_it_has(
    opened: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = next(measure_experiments(opened, [Fake()])).read_bytes()
    monkeypatch.setattr(session, "launch_all", answering(note="second"))
    first, second, _ = measured(opened)
    assert first.conditions["notes"]["same"] == "n"
    assert second.conditions["notes"]["same"] == "second"
    assert opened.path(Fake(), "a").read_bytes() == kept


@pytest.mark.parametrize(
    "change", [{"run": "run-2"}, {"takes_over": False}, {"stack": FakeStack(driver="2")}]
)
def test_what_another_run_or_stack_measured_is_measured_again(
    opened: Session, monkeypatch: pytest.MonkeyPatch, change: dict[str, Any]
) -> None:
    measured(opened)
    monkeypatch.setattr(session, "launch_all", answering(note="again"))
    again = measured(replace(opened, **change))
    assert {document.conditions["notes"]["same"] for document in again} == {"again"}


def test_a_damaged_document_is_measured_again(opened: Session) -> None:
    path = opened.path(Fake(), "a")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"half a docum")
    assert measured(opened)[0].figures


def test_children_that_fail_alike_have_one_reason(
    opened: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "launch_all", answering(failure="killed"))
    assert measured(opened)[0].failures == [Failure("start", "killed")]


def test_an_experiment_that_cannot_be_asked_leaves_its_reason(opened: Session) -> None:
    class Unable(Fake):
        def requests(
            self, subject: str, profile: Profile, allocators: Sequence[Allocator]
        ) -> list[Request]:
            raise NotMeasurableError("needs two GPUs")

    assert measured(opened, Unable())[0].failures == [Failure("start", "needs two GPUs")]


def test_children_that_say_nothing_leave_a_reason(
    opened: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "launch_all", answering_nothing)
    assert measured(opened)[0].failures == [Failure("start", "nothing was reported")]


def test_an_experiment_that_cannot_combine_loses_no_reading(opened: Session) -> None:
    class Broken(Fake):
        def combine(self, outcomes: Sequence[ChildOutcome]) -> list[Figure]:
            raise ZeroDivisionError("oops")

    first = measured(opened, Broken())[0]
    assert len(first.figures) == 2
    assert first.failures == [Failure("combine", "ZeroDivisionError: oops")]


def test_a_full_disk_stops_with_a_sentence_and_keeps_what_was_saved(
    opened: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = documents.write

    def full(path: Path, document: Document) -> None:
        if document.subject == "b":
            raise OSError(errno.ENOSPC, "No space left on device")
        write(path, document)

    monkeypatch.setattr(documents, "write", full)
    with pytest.raises(RunStoppedError, match="disk is full") as stopped:
        list(measure_experiments(opened, [Fake()]))
    assert stopped.value.exit_code == 3
    assert opened.path(Fake(), "a").exists()
    assert not opened.path(Fake(), "b").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_with_a_sentence(number: signal.Signals) -> None:
    kept = {other: signal.getsignal(other) for other in (signal.SIGINT, signal.SIGTERM)}
    try:
        with pytest.raises(RunStoppedError, match="same command goes on"), stoppable(), stoppable():
            try:
                os.kill(os.getpid(), number)
            finally:  # Impatience changes nothing, neither while it cleans up nor after.
                os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        for other, handler in kept.items():
            signal.signal(other, handler)


def test_the_handlers_are_given_back_after_a_run_that_was_not_stopped() -> None:
    kept = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with stoppable(), stoppable():
        pass
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == kept


def test_the_rest_of_a_stopped_run_says_why_and_is_measured_later(opened: Session) -> None:
    kept = next(measure_experiments(opened, [Fake()])).read_bytes()
    mark_rest(opened, [Fake()])
    assert opened.path(Fake(), "a").read_bytes() == kept
    marked = documents.read(opened.path(Fake(), "c"))
    assert marked.failures == [Failure(NOT_REACHED, "the run was stopped before this was measured")]
    assert all(document.figures for document in measured(opened))


def test_of_what_was_not_asked_for_nothing_is_said(opened: Session) -> None:
    mark_rest(replace(opened, only=["b"]), [Fake()])
    assert [path.name for path in opened.results.rglob("*.json.gz")] == ["fake.b.json.gz"]


def test_marking_stops_quietly_on_a_full_disk(
    opened: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, document: Document) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(documents, "write", full)
    mark_rest(opened, [Fake()])
    assert not list(opened.results.rglob("*"))


def test_a_run_is_carried_on_until_it_is_finished(tmp_path: Path) -> None:
    first = run_state.begin([tmp_path])
    assert run_state.begin([tmp_path]) == first
    run_state.finish([tmp_path])
    assert run_state.join(tmp_path).id == first.id
    second = run_state.begin([tmp_path])
    assert second.id != first.id
    assert run_state.begin([tmp_path], fresh=True).id != second.id


def test_a_run_over_several_stacks_has_one_id_and_one_end(tmp_path: Path) -> None:
    torch, tensorflow = tmp_path / "torch", tmp_path / "tensorflow"
    first = run_state.begin([torch])
    run_state.finish([torch])
    both = run_state.begin([torch, tensorflow])
    assert both.id != first.id
    assert run_state.read(torch) == run_state.read(tensorflow) == both
    # Cut off in the second stack: the next run carries it on in both, whatever it finds first.
    assert run_state.begin([torch, tensorflow]) == run_state.begin([tensorflow, torch]) == both
    run_state.finish([torch, tensorflow])
    assert all(state and state.finished for state in map(run_state.read, (torch, tensorflow)))


def test_of_two_runs_that_were_cut_off_the_newer_is_carried_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter(["2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"])
    monkeypatch.setattr(run_state, "now", lambda: next(times))
    run_state.begin([tmp_path / "a"])
    newer = run_state.begin([tmp_path / "b"])
    assert run_state.begin([tmp_path / "a", tmp_path / "b"]) == newer


def test_a_stack_without_a_run_joins_that_of_the_others(tmp_path: Path) -> None:
    torch, tensorflow = tmp_path / "torch", tmp_path / "tensorflow"
    first = run_state.begin([torch])
    run_state.finish([torch])
    assert run_state.join(tensorflow, [torch, tensorflow]).id == first.id
    own = run_state.begin([tensorflow], fresh=True)
    assert run_state.join(tensorflow, [torch, tensorflow]).id == own.id
    assert run_state.join(torch, [torch, tensorflow]).id == first.id


def test_a_filtered_run_is_carried_on_until_it_ends(tmp_path: Path) -> None:
    first, carried_on = run_state.begin_part(tmp_path, "streams")
    assert not carried_on
    assert run_state.begin_part(tmp_path, "streams") == (first, True)
    assert not run_state.begin_part(tmp_path, "streams", fresh=True)[1]
    # Another one is not it, and the run has its end as the last of them has.
    other, carried_on = run_state.begin_part(tmp_path, "latency")
    assert other.id == first.id and not carried_on
    for asked, ended in (("latency", False), ("streams", True)):
        run_state.finish_part(tmp_path, asked)
        state = run_state.read(tmp_path)
        assert state and (state.finished is not None) is ended
    # Given again after its end it measures again, in the same run.
    again, carried_on = run_state.begin_part(tmp_path, "streams")
    assert again.id == first.id and not carried_on


@pytest.mark.parametrize("finished", [True, False])
def test_a_filtered_run_leaves_a_whole_one_as_it_is(tmp_path: Path, finished: bool) -> None:
    run_state.begin([tmp_path])
    if finished:
        run_state.finish([tmp_path])
    before = (tmp_path / run_state.FILE_NAME).read_bytes()
    whole = run_state.read(tmp_path)
    state, _ = run_state.begin_part(tmp_path, "streams")
    assert whole and replace(state, parts={}) == whole
    run_state.finish_part(tmp_path, "streams")
    assert (tmp_path / run_state.FILE_NAME).read_bytes() == before


def test_a_whole_run_makes_a_filtered_one_that_was_cut_off_whole(tmp_path: Path) -> None:
    part, _ = run_state.begin_part(tmp_path, "streams")
    whole = run_state.begin([tmp_path])
    assert whole.id == part.id and whole.whole
    assert not run_state.begin_part(tmp_path, "streams")[1]
    run_state.finish_part(tmp_path, "streams")
    assert run_state.read(tmp_path) == whole and whole.finished is None


def test_only_what_a_filtered_run_has_finished_itself_is_taken_over(opened: Session) -> None:
    (a, b, c) = (opened.path(Fake(), name) for name in "abc")
    for path, started in ((a, "2026-01-01T00:00:00Z"), (b, "2026-01-02T00:00:00Z")):
        (document,) = [d for d in measured(opened) if d.subject == path.name.split(".")[1]]
        documents.write(path, replace(document, started=started))
    c.unlink()
    old, done = a.read_bytes(), b.read_bytes()
    measured(replace(opened, since="2026-01-01T12:00:00Z"))
    assert a.read_bytes() != old and b.read_bytes() == done and c.exists()


def test_another_suite_version_begins_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = run_state.begin([tmp_path])
    monkeypatch.setattr(run_state, "__version__", "9")
    assert run_state.begin([tmp_path]).id != first.id


def test_a_damaged_run_file_begins_anew(tmp_path: Path) -> None:
    first = run_state.begin([tmp_path])
    for damaged in ("{", '{"id": "1", "started": "", "suite": "", "parts": []}'):
        (tmp_path / run_state.FILE_NAME).write_text(damaged)
        assert run_state.read(tmp_path) is None
    assert run_state.begin([tmp_path]).id != first.id


def test_a_newer_document_is_never_replaced(opened: Session) -> None:
    path = opened.path(Fake(), "a")
    path.parent.mkdir(parents=True)
    newer = gzip.compress(json.dumps({"schema": 99}).encode())
    path.write_bytes(newer)
    for takes_over in (True, False):
        with pytest.raises(NewerDocumentError, match="upgrade allocmark"):
            measured(replace(opened, takes_over=takes_over))
    assert path.read_bytes() == newer


def _no_permission(path: Path, patch: pytest.MonkeyPatch) -> None:
    """As somebody else's file is; root may read them all."""
    path.write_bytes(gzip.compress(b"whole"))
    patch.setattr(Path, "read_bytes", _refused)


def _refused(path: Path) -> bytes:
    raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))


def _folder(path: Path, patch: pytest.MonkeyPatch) -> None:
    path.mkdir()


def _pipe(path: Path, patch: pytest.MonkeyPatch) -> None:
    os.mkfifo(path)


def _loop(path: Path, patch: pytest.MonkeyPatch) -> None:
    path.symlink_to(path)


def _below_a_file(path: Path, patch: pytest.MonkeyPatch) -> None:
    path.parent.rmdir()
    path.parent.touch()


@pytest.mark.parametrize(
    ("put", "told"),
    [
        (_no_permission, "cannot be read (Permission denied): make it readable"),
        (_folder, "is not a file: move it out of the results"),
        (_pipe, "is not a file: move it out of the results"),
        (_loop, "cannot be read (Too many levels of symbolic links): make it readable"),
        (_below_a_file, "cannot be read (Not a directory): make it readable"),
    ],
)
@pytest.mark.parametrize("takes_over", [True, False])
def test_what_cannot_be_read_is_never_replaced(
    opened: Session,
    monkeypatch: pytest.MonkeyPatch,
    put: Callable[[Path, pytest.MonkeyPatch], None],
    told: str,
    takes_over: bool,
) -> None:
    path = opened.path(Fake(), "a")
    path.parent.mkdir(parents=True)
    put(path, monkeypatch)
    before = path.lstat() if path.parent.is_dir() else None
    monkeypatch.setattr(session, "launch_all", lambda requests: pytest.fail("measured"))
    with pytest.raises(UnreadableDocumentError, match=re.escape(f"{path} {told}")):
        measured(replace(opened, takes_over=takes_over))
    assert before is None or path.lstat() == before
