"""The launcher: whatever a child does, its readings are kept and the run goes on."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from allocmark.experiments.core import launcher
from allocmark.experiments.core.launcher import (
    Start,
    child_environment,
    launch,
    launch_all,
    spawn,
)
from allocmark.experiments.core.preloaded import Preloaded
from allocmark.experiments.core.request import ChildOutcome, Request
from allocmark.system.interpreters import interpreter

pytestmark = pytest.mark.fault

# An allocator of a user's own that misbehaves as told, without any GPU.
_MISBEHAVING = """
import os, signal, sys, time
from allocmark.allocators.base import Allocator
from allocmark.system.compiler import shared_library

class Misbehaving(Allocator):
    framework = "cuda"
    def open(self, device):
        match self.name:
            case "hangs": time.sleep(600)
            case "killed": os.kill(os.getpid(), signal.SIGKILL)
            case "aborts": os.abort()
            case "exits": sys.exit("gave up")
            case "raises": raise RuntimeError("no luck today")
            case "names": raise RuntimeError("no file " + os.fsdecode(b"\\xff"))
            case "builds": shared_library("x", [])
            case "prints":
                print("noise on standard output", flush=True)
                os.write(1, b"{broken json")
    def alloc(self, size_bytes, stream=0): return 1
    def free(self, block, stream=0): pass
    def synchronize(self): pass

ALLOCATORS = tuple(Misbehaving(n) for n in
                   ("hangs", "killed", "aborts", "exits", "raises", "prints", "builds", "names"))
"""


_MARK = "TEST_OF_THE_LAUNCHER"


def _running(mark: str) -> int:
    """Return how many processes were started with that mark, forks of such ones among them."""
    found = 0
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            found += f"{_MARK}={mark}\0".encode() in path.read_bytes()
    return found


def _request(file: Path, subject: str, limit_s: float = 60.0) -> Request:
    parameters = {"workloads": [], "repeats": 1}
    return Request("fragmentation", subject, limit_s, parameters, allocator_file=file)


@pytest.fixture
def allocator_file(tmp_path: Path) -> Path:
    path = tmp_path / "misbehaving.py"
    path.write_text(_MISBEHAVING)
    return path


@pytest.fixture(params=["spawned", "forked"])
def start(
    request: pytest.FixtureRequest, allocator_file: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Start]:
    """Both ways to start a child must tell the same of it."""
    monkeypatch.setenv(_MARK, str(allocator_file))
    if request.param == "spawned":
        yield spawn
        return
    with Preloaded(_request(allocator_file, "any")) as preloaded:
        yield preloaded.start


def _launch(request: Request, start: Start) -> ChildOutcome:
    (outcome,) = launch_all([request], start=start)
    return outcome


@pytest.mark.parametrize(
    ("subject", "expected"),
    [
        ("killed", "ended by SIGKILL"),
        ("aborts", "ended by SIGABRT"),
        ("exits", "exit code 1: gave up"),
        ("raises", "RuntimeError: no luck today"),
        ("names", "RuntimeError: no file <U+DCFF>"),
    ],
)
def test_the_reason_says_how_a_child_ended(
    allocator_file: Path, subject: str, expected: str, start: Start
) -> None:
    (failure,) = _launch(_request(allocator_file, subject), start).failures
    assert expected in failure.reason


def test_what_cannot_be_built_has_a_stage_of_its_own(
    allocator_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(allocator_file))
    (failure,) = launch(_request(allocator_file, "builds")).failures
    assert failure.stage == "build"
    assert f"{allocator_file}/allocmark cannot be written" in failure.reason


def test_a_hanging_child_is_stopped_at_its_limit(allocator_file: Path, start: Start) -> None:
    (failure,) = _launch(_request(allocator_file, "hangs", limit_s=4), start).failures
    assert failure.reason == "stopped after its time limit of 4 s"


def test_the_run_goes_on_after_each_way_to_fail(allocator_file: Path, start: Start) -> None:
    subjects = ["killed", "prints", "raises", "prints"]
    requests = [_request(allocator_file, subject) for subject in subjects]
    outcomes = list(launch_all(requests, ahead=2, start=start))
    assert [o.request.subject for o in outcomes] == subjects
    assert [bool(o.failures) for o in outcomes] == [True, False, True, False]


@pytest.mark.parametrize("spare", [False, True])
def test_nothing_starts_beside_a_child_that_is_to_be_alone(
    spare: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alive: list[str] = []
    beside: dict[str, str] = {}

    class Fake(launcher.Child):
        def __init__(self, request: Request, _start: launcher.Start) -> None:
            self.request = request
            alive.append(request.subject)

        def run(self) -> ChildOutcome:
            alive.remove(self.request.subject)
            beside[self.request.subject] = "".join(alive)
            return ChildOutcome(self.request, 0.0)

    monkeypatch.setattr(launcher, "Child", Fake)
    monkeypatch.setattr(launcher, "CORES_TO_SPARE", spare)
    requests = [Request("latency", s, 1.0, alone=s in "cd") for s in "abcdef"]
    assert [o.request.subject for o in launch_all(requests, ahead=2)] == list("abcdef")
    few = {"a": "bc", "b": "c", "c": "", "d": "", "e": "f", "f": ""}
    many = {"a": "bc", "b": "cd", "c": "de", "d": "ef", "e": "f", "f": ""}
    assert beside == (many if spare else few)


def test_output_of_the_program_does_not_disturb_the_readings(
    allocator_file: Path, start: Start
) -> None:
    outcome = _launch(_request(allocator_file, "prints"), start)
    assert not outcome.failures
    assert outcome.notes


def test_abandoned_children_do_not_outlive_the_run(allocator_file: Path, start: Start) -> None:
    requests = [_request(allocator_file, s) for s in ("prints", "hangs", "hangs")]
    before = _running(str(allocator_file))
    running = launch_all(requests, ahead=2, start=start)
    next(running)
    assert _running(str(allocator_file)) > before
    running.close()
    assert _running(str(allocator_file)) == before


def test_a_stray_setting_of_the_user_is_not_inherited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:21")
    monkeypatch.setenv("CUDA_MODULE_LOADING", "EAGER")
    request = Request("latency", "x", 1.0, environment={"CUDA_MODULE_LOADING": "LAZY"})
    environment = child_environment(request)
    assert "PYTORCH_CUDA_ALLOC_CONF" not in environment
    assert environment["CUDA_MODULE_LOADING"] == "LAZY"


def test_children_keep_what_they_compile_where_the_environment_forbids_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def bytecode(**variables: str) -> list[str | None]:
        names = ("PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX")
        for name in names:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        environment = child_environment(Request("latency", "x", 1.0))
        return [environment.get(name) for name in names]

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cache = str(tmp_path / "allocmark" / "bytecode")
    assert bytecode() == [None, None]
    assert bytecode(PYTHONDONTWRITEBYTECODE="1") == [None, cache]
    assert bytecode(PYTHONDONTWRITEBYTECODE="1", PYTHONPYCACHEPREFIX="/own") == [None, "/own"]


def test_a_child_that_cannot_be_started_has_a_reason_and_leaks_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ALLOCMARK_PYTHON_CUDA", "/nonexistent/python")
    (failure,) = launch(Request("latency", "x", 1.0)).failures
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(5):
        launch(Request("latency", "x", 1.0))
    assert "/nonexistent/python cannot be started" in failure.reason
    assert "ALLOCMARK_PYTHON_CUDA" in failure.reason
    assert len(list(Path("/proc/self/fd").iterdir())) <= before


def test_the_interpreter_of_a_framework_is_configurable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert interpreter("torch") == sys.executable
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", "/opt/tf/bin/python")
    assert interpreter("tensorflow") == "/opt/tf/bin/python"


def test_a_request_survives_the_pipe(tmp_path: Path) -> None:
    request = Request(
        "latency", "torch-native", 2.5, {"a": [1, 2]}, {"X": "1"}, "torch", 1, tmp_path
    )
    assert Request.from_json(request.to_json()) == request
    assert ChildOutcome(request, 1.0).figures == ()


def test_a_trace_of_addresses_is_not_what_ended_a_process() -> None:
    frames = "\n".join(f"frame #{n}: _start + 0x{n:x} (0x5555 in /a/b/python)" for n in range(28))
    stderr = (
        f"terminate called after throwing\n  what():  CUDA error: device lost\nmore\n{frames}\n"
    )
    assert (
        launcher.ending(-6, stderr) == "the process was ended by SIGABRT: CUDA error: device lost"
    )
    assert launcher.ending(1, "one\n\ntwo\n\n") == "the process ended with exit code 1: two"
    assert launcher.ending(-9, "") == "the process was ended by SIGKILL"
