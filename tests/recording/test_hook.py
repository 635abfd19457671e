"""The hook inside the program, over a stand-in for torch: names of files, neighbours and faults."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import allocmark
from allocmark.recording.record import RecordOptions, record
from allocmark.system import foreground
from allocmark.system.errors import AllocmarkError

pytestmark = pytest.mark.fault

_HOOK = Path(allocmark.__file__).parent / "hook" / "inside"

TORCH = """
class _Version:
    cuda = "13.0"
version = _Version()
__version__ = "2.99"
class _C:
    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        cuda.observer = observer
class _Memory:
    calls = []
    def _record_memory_history(self, *args, **kwargs):
        self.calls.append(kwargs)
    def _snapshot(self):
        return {"segments": [], "device_traces": [[{"action": "alloc"}] * 3]}
class _Cuda:
    OutOfMemoryError = MemoryError
    memory = _Memory()
    def _lazy_call(self, call):
        self.start = call
    def device_count(self): return 1
    def memory_stats(self, device): return {"reserved_bytes.all.peak": 5, "num_alloc_retries": 2}
    def mem_get_info(self, device): return 10, 100
    def get_device_name(self, device): return "Fake"
    def memory_reserved(self, device): return 4
    def get_allocator_backend(self): return "native"
cuda = _Cuda()
"""


def program(
    tmp_path: Path, code: str, *, out: Path | None = None, path: str = "", **more: str
) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    """Run code with the hook in place; returns how it ended and what was reported."""
    folder = tmp_path / "packages"
    folder.mkdir(exist_ok=True)
    (folder / "torch.py").write_text(TORCH)
    reports = tmp_path / "reports"
    reports.mkdir(exist_ok=True)
    asked = {
        "out": str(out or tmp_path / "s.pickle"),
        "reports": str(reports),
        "max_entries": 3,
        "stacks": True,
        "on_oom": False,
    }
    paths = os.pathsep.join(filter(None, [str(_HOOK), path, str(folder)]))
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={
            **os.environ,
            "PYTHONPATH": paths,
            "ALLOCMARK_RECORD": json.dumps(asked),
            "XDG_RUNTIME_DIR": str(tmp_path),
            **more,
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = sorted(reports.glob("report.*"))
    return ended, [json.loads(report.read_text()) for report in found]


def test_history_begins_with_cuda_and_the_snapshot_is_plain_data(tmp_path: Path) -> None:
    code = "import torch; torch.cuda.start(); print(torch.cuda.memory.calls[0])"
    ended, reports = program(tmp_path, code)
    assert "'max_entries': 3" in ended.stdout and "'context': 'all'" in ended.stdout
    assert [(r["why"], r["entries"], r["full"]) for r in reports] == [("exit", 3, True)]
    facts = pickle.loads((tmp_path / "s.pickle").read_bytes())["allocmark"]
    assert facts["counters"] == {"0": {"peak_reserved_bytes": 5, "retries": 2}}
    assert (facts["total_bytes"], facts["free_bytes"], facts["gpu"]) == (100, 10, "Fake")


def test_the_snapshot_is_a_pickle_that_memory_viz_reads_whatever_python_writes_it(
    tmp_path: Path,
) -> None:
    newer = "import pickle; own = pickle.dump; pickle.dump = lambda x, f, p=5, **more: own(x, f, p)"
    program(tmp_path, f"{newer}; import torch; torch.cuda.start()")
    first, protocol = (tmp_path / "s.pickle").read_bytes()[:2]
    assert (first, protocol) == (0x80, 4)


def test_its_counters_can_be_seen_while_it_runs(tmp_path: Path) -> None:
    look = "import os; print(os.listdir(os.environ['XDG_RUNTIME_DIR'] + '/allocmark'), os.getpid())"
    ended, _ = program(tmp_path, f"import torch; torch.cuda.start(); {look}")
    names, pid = ended.stdout.rsplit(maxsplit=1)
    assert names == f"['{pid}.json']"
    assert list((tmp_path / "allocmark").iterdir()) == []


def test_a_full_disk_is_told_alone_and_by_the_file_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    full = (
        "tempfile.mkstemp = lambda **_: (_ for _ in ()).throw(OSError(28, 'full', '.recording-x'))"
    )
    code = f"import tempfile, torch; torch.cuda.start(); {full}"
    out = tmp_path / "s.pickle"
    _, reports = program(tmp_path, code, out=out)

    def told(command: Sequence[str], environment: Mapping[str, str], *_: object) -> int:
        asked = json.loads(environment["ALLOCMARK_RECORD"])
        (Path(asked["reports"]) / "report.1.1").write_text(json.dumps(reports[0]))
        (Path(asked["reports"]) / "report.1.2").write_text("")
        return 0

    monkeypatch.setattr(foreground, "run", told)
    assert record(["x"], RecordOptions(out)) == 3
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith(f"allocmark: the disk is full: {out} could not be written at exit; ")
    assert second == "allocmark: no snapshot at some time: what the program told of it is cut off"


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that started commands were asked to write; none is."""
    asked: list[str] = []

    def run(command: Sequence[str], environment: Mapping[str, str], *_: object) -> int:
        asked.append(json.loads(environment["ALLOCMARK_RECORD"])["out"])
        return 0

    monkeypatch.setattr(foreground, "run", run)
    return asked


_TAKEN = ("s.pickle", "s.rank0.pickle", "s.rank11.pickle", "s.pid7.pickle", "s.rank0-2.pickle")


@pytest.mark.parametrize("there", [*_TAKEN, "s.pickle/", "s.pickle@"])
def test_a_recording_that_is_there_is_never_replaced(
    tmp_path: Path, started: list[str], there: str
) -> None:
    place = tmp_path / there.strip("/@")
    if there.endswith("/"):
        place.mkdir()
    elif there.endswith("@"):
        place.symlink_to(tmp_path / "nowhere")
    else:
        place.write_text("mine")
    with pytest.raises(AllocmarkError) as told:
        record(["x"], RecordOptions(tmp_path / "s.pickle"))
    assert str(told.value) == f"{place} is there already: move it away, or name another --out"
    assert (told.value.exit_code, started) == (2, [])
    if place.is_file():
        assert place.read_text() == "mine"


def test_what_is_no_recording_of_this_name_is_in_nobodys_way(
    tmp_path: Path, started: list[str]
) -> None:
    for name in ("s", "s.pickle.old", "s.rankx.pickle", "s.rank0xpickle", "as.rank0.pickle"):
        (tmp_path / name).write_text("")
    record(["x"], RecordOptions(tmp_path / "s.pickle"))
    assert started == [str(tmp_path / "s.pickle")]


@pytest.mark.parametrize(
    ("there", "name"),
    [
        ((), "snapshot.pickle"),
        (("snapshot.pickle",), "snapshot-2.pickle"),
        (("snapshot-2.pickle",), "snapshot.pickle"),
        (("snapshot.pickle", "snapshot-2.pickle"), "snapshot-3.pickle"),
        (("snapshot.rank0.pickle",), "snapshot-2.pickle"),
        (("snapshot.pickle", "snapshot-2.rank3.pickle"), "snapshot-3.pickle"),
    ],
)
def test_without_a_name_the_next_free_one_is_taken(
    tmp_path: Path,
    started: list[str],
    monkeypatch: pytest.MonkeyPatch,
    there: Sequence[str],
    name: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for one in there:
        (tmp_path / one).write_text("mine")
    record(["x"], RecordOptions())
    assert started == [str(tmp_path / name)]


_NO_LINKS = "import os; os.link = lambda *_: (_ for _ in ()).throw(OSError(95, 'no links'));"


@pytest.mark.parametrize("links", [True, False])
def test_a_file_that_came_there_meanwhile_is_not_replaced(tmp_path: Path, links: bool) -> None:
    for name in ("s.pickle", "s-2.pickle"):
        (tmp_path / name).write_text("another's")
    at_oom = "import torch; torch.cuda.start(); torch.cuda.observer(0, 1, 2, 3)"
    _, reports = program(tmp_path, ("" if links else _NO_LINKS) + at_oom)
    assert {report["file"] for report in reports} == {str(tmp_path / "s-3.pickle")}
    assert [report["why"] for report in reports] == [
        "oom",
        "exit",
    ]  # Its own file, it does replace.
    facts = pickle.loads((tmp_path / "s-3.pickle").read_bytes())["allocmark"]
    assert facts["why"] == "exit"
    names = {path.name: path.read_bytes() for path in tmp_path.glob("*s*") if path.is_file()}
    assert sorted(names) == ["s-2.pickle", "s-3.pickle", "s.pickle"]
    assert names["s.pickle"] == names["s-2.pickle"] == b"another's"
    assert not list(tmp_path.glob(".recording-*"))


def test_without_cuda_nothing_is_written(tmp_path: Path) -> None:
    ended, reports = program(tmp_path, "import torch")
    assert (ended.returncode, reports) == (0, [])
    assert not (tmp_path / "s.pickle").exists()


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("torch.cuda.observer(0, 1, 2, 3); raise MemoryError('no')", "oom"),
        # A program that goes on after it has more to tell at its end.
        ("torch.cuda.observer(0, 1, 2, 3)", "exit"),
        ("raise ValueError('other')", "exit"),
        # The second follows at once: it is written at the end.
        ("f = torch.cuda.observer; f(0, 1, 2, 3); f(0, 1, 2, 3); raise MemoryError", "exit"),
    ],
)
def test_the_snapshot_at_the_failure_is_kept_where_the_program_ended_by_it(
    tmp_path: Path, code: str, why: str
) -> None:
    program(tmp_path, f"import torch; torch.cuda.start(); {code}")
    assert pickle.loads((tmp_path / "s.pickle").read_bytes())["allocmark"]["why"] == why


def test_each_process_has_a_file_of_its_own(tmp_path: Path) -> None:
    code = "import torch; torch.cuda.start()"
    program(tmp_path, code)
    program(tmp_path, code)
    program(tmp_path, code, RANK="3", WORLD_SIZE="4")
    names = sorted(path.name for path in tmp_path.glob("*.pickle"))
    assert [names[0], names[2]] == ["s.pickle", "s.rank3.pickle"]
    assert names[1].startswith("s.pid")


def test_a_fork_does_not_write_over_its_parent(tmp_path: Path) -> None:
    code = "import os, torch; torch.cuda.start(); pid = os.fork(); pid and os.waitpid(pid, 0)"
    _ended, reports = program(tmp_path, code)
    assert len(reports) == 1


def test_a_sitecustomize_of_the_users_own_is_run_too(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins; builtins.mine = 'ran'")
    ended, _ = program(tmp_path, "print(mine)", path=str(own))
    assert ended.stdout == "ran\n"


def test_a_fault_of_the_recording_never_ends_the_program(tmp_path: Path) -> None:
    code = "import torch; torch.cuda.memory._snapshot = None; torch.cuda.start(); print('fine')"
    ended, reports = program(tmp_path, code)
    assert (ended.returncode, ended.stdout) == (0, "fine\n")
    assert "TypeError" in reports[0]["fault"]
    ended, reports = program(
        tmp_path, "import torch; torch.cuda.start()", out=tmp_path / "no" / "s"
    )
    assert ended.returncode == 0
    assert any("FileNotFoundError" in r.get("fault", "") for r in reports)


@pytest.mark.parametrize("tells", [True, False], ids=["newer torch", "older torch"])
@pytest.mark.parametrize("fraction", [None, 0.25])
def test_the_fraction_that_the_process_allows_itself_is_kept(
    tmp_path: Path, tells: bool, fraction: float | None
) -> None:
    """Older releases do not tell it: it is heard of when it is set."""
    code = """
import torch
core, kept = torch._C, {}
core._cuda_setMemoryFraction = lambda fraction, device: kept.update({device: fraction})
"""
    if tells:
        code += "core._cuda_getMemoryFraction = lambda device: kept.get(device, 1.0)\n"
    code += "torch.cuda.start()\n"
    if fraction is not None:
        code += (
            f"torch._C._cuda_setMemoryFraction({fraction}, 0)\nassert kept == {{0: {fraction}}}\n"
        )
    ended, _reports = program(tmp_path, code)
    assert ended.returncode == 0, ended.stderr
    facts = pickle.loads((tmp_path / "s.pickle").read_bytes())["allocmark"]
    assert facts["memory_fraction"] == (fraction or 1.0)


_USE = "import os, sys, torch; torch.cuda.start(); "
_CHILD = "import os, torch; pid = os.fork(); "
_AGAIN = "os.execv(sys.executable, [sys.executable, '-c', {!r}])"
_FORKED = "import multiprocessing, torch; context = multiprocessing.get_context('fork'); "
_KILLED = "os.kill(os.getpid(), {})"


@dataclass(frozen=True)
class Ending:
    """A program that ends in a way of its own, and what is there of it and said of it."""

    code: str
    status: int
    files: int
    says: str
    silent: str = ""


_ENDINGS = {
    "_exit": Ending(f"{_USE}os._exit(4)", 4, 1, "written at exit"),
    "exec, which uses CUDA again": Ending(_USE + _AGAIN.format(_USE), 0, 2, "written at exit"),
    "exec, which does not": Ending(_USE + _AGAIN.format(""), 0, 1, "written at exit"),
    "exec that fails": Ending(f"{_USE}os.execvp('/no/such', ['x'])", 1, 1, "written at exit"),
    "a child of multiprocessing": Ending(
        f"{_FORKED}child = context.Process(target=torch.cuda.start); child.start(); child.join()",
        0,
        1,
        "written at exit",
    ),
    "a child first, which is killed": Ending(
        f"{_CHILD}torch.cuda.start() if pid == 0 else os.waitpid(pid, 0); "
        f"{_KILLED.format(9)} if pid == 0 else torch.cuda.start()",
        0,
        1,
        "written at exit",
        "1 of 2 processes that used CUDA wrote nothing: ended by a signal, or by _exit",
    ),
    "a child, both": Ending(
        f"{_CHILD}torch.cuda.start(); pid == 0 or os.waitpid(pid, 0)", 0, 2, "written at exit"
    ),
    "_exit of a thread": Ending(
        f"{_USE}import threading; threading.Thread(target=os._exit, args=(0,)).start(); input()",
        3,
        0,
        "no snapshot was written: what used CUDA was ended by a signal, or by _exit outside of",
    ),
    "atexit, which ends by _exit": Ending(
        f"import atexit, os; atexit.register(os._exit, 0); {_USE}", 0, 1, "written at exit"
    ),
    **{
        name: Ending(
            _USE + _KILLED.format(int(signal.Signals[name])),
            128 + signal.Signals[name],
            0,
            f"no snapshot was written: the command was ended by {name}",
        )
        for name in ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGBUS")
    },
}


@pytest.mark.parametrize("name", _ENDINGS)
def test_the_name_asked_for_goes_to_a_process_that_wrote_however_it_ends(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    ending, packages, out = _ENDINGS[name], tmp_path / "packages", tmp_path / "s.pickle"
    packages.mkdir()
    (packages / "torch.py").write_text(TORCH)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    status = record([sys.executable, "-c", ending.code], RecordOptions(out))
    told = capfd.readouterr().err
    assert (status, ending.says in told) == (ending.status, True), told
    written = sorted(tmp_path.glob("s.*"))
    assert (len(written), out.exists()) == (ending.files, ending.files > 0), told
    assert all(f"allocmark: {path}: 3 entries, " in told for path in written), told
    assert ("wrote nothing" in told, ending.silent in told) == (bool(ending.silent), True), told
