"""The environments of nights: whole ones only, kept by their locks, shared, asked for in time."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from starter import commands, lanes
from starter.errors import StartError
from starter.lanes import Wanted


@pytest.fixture
def nights(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A clone whose locks are words, and a pip that installs nothing."""
    locks = tmp_path / "requirements"
    locks.mkdir()
    for name in ("site", "torch", "tensorflow", "tensorflow-cuda"):
        (locks / f"{name}.txt").write_text(f"{name}==1\n")
    monkeypatch.setattr(lanes, "LOCKS", locks)
    monkeypatch.setattr(lanes, "NIGHTS", tmp_path / "nightly")
    monkeypatch.setattr(lanes, "ROOT", tmp_path)
    return tmp_path / "nightly"


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[Sequence[str]]:
    """The commands that were run to make environments."""
    found: list[Sequence[str]] = []

    def run(command: Sequence[str]) -> None:
        found.append(command)
        if command[1:3] == ["-m", "venv"]:
            (Path(command[3]) / "bin").mkdir(parents=True)
            (Path(command[3]) / "bin" / "python").touch()

    monkeypatch.setattr(lanes, "_run", run)
    return found


def _made(wanted: Wanted) -> None:
    with lanes.made(wanted):
        pass


def test_an_environment_is_kept_as_long_as_its_lock_is_the_same(
    nights: Path, ran: list[Sequence[str]]
) -> None:
    torch, tensorflow = lanes.environments("pinned", False, emulated=True)
    _made(torch)
    assert [command[2:4] for command in ran] == [
        ["venv", str(torch.folder)],
        ["pip", "install"],
        ["pip", "install"],
    ]
    assert "--require-hashes" in ran[1] and ran[2][-2:] == ["-e", str(nights.parent)]
    ran.clear()
    _made(torch)
    assert not ran
    (nights.parent / "requirements" / "torch.txt").write_text("torch==2\n")
    again, same = lanes.environments("pinned", False, emulated=True)
    assert again.folder != torch.folder and same.folder == tensorflow.folder
    on_gpu = lanes.environments("pinned", False, emulated=False)[1]
    assert on_gpu.installs[0][-1].endswith("tensorflow-cuda.txt")


def test_one_whose_making_was_cut_off_is_made_anew(
    nights: Path, monkeypatch: pytest.MonkeyPatch, ran: list[Sequence[str]]
) -> None:
    torch, _ = lanes.environments("pinned", False, emulated=True)
    run = lanes._run

    def full(command: Sequence[str]) -> None:
        run(command)
        if "pip" in command:
            raise StartError("the disk is full")

    monkeypatch.setattr(lanes, "_run", full)
    with pytest.raises(StartError):
        _made(torch)
    assert torch.python.is_file()
    (torch.folder / "half").touch()
    monkeypatch.setattr(lanes, "_run", run)
    _made(torch)
    assert not (torch.folder / "half").exists() and torch.python.is_file()


def _whole(nights: Path, name: str, age: int) -> Path:
    folder = nights / name
    folder.mkdir(parents=True)
    (folder / lanes._WHOLE).touch()
    os.utime(folder / lanes._WHOLE, (1000 - age, 1000 - age))
    return folder


def test_the_last_used_whole_ones_are_kept_and_none_in_use_is_removed(nights: Path) -> None:
    newest, second, third, used = (
        _whole(nights, f"pinned-torch-{name}", age) for age, name in enumerate("abcd")
    )
    half = nights / "pinned-torch-half"
    half.mkdir()
    other = _whole(nights, "rolling-torch-old", 900)
    with (nights / "pinned-torch-d.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        lanes.prune("pinned-torch")
        assert {p for p in nights.iterdir() if p.is_dir()} == {newest, second, used, other}
    lanes.prune("pinned-torch")
    assert {p for p in nights.iterdir() if p.is_dir()} == {newest, second, other}
    assert third not in nights.iterdir()


def test_what_pip_resolves_tonight_is_the_rolling_lanes_lock(
    nights: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = {"torch": b"torch 2.11", "tensorflow": b"tensorflow 2.21"}
    monkeypatch.setattr(lanes, "_resolved", lambda words: answers[words[-1].partition("[")[0]])
    first = lanes.environments("rolling", False, emulated=True)
    assert [one.folder for one in lanes.environments("rolling", False, True)] == [
        one.folder for one in first
    ]
    answers["torch"] = b"torch 2.12"
    second = lanes.environments("rolling", True, emulated=True)
    assert second[0].folder != first[0].folder and second[1].folder == first[1].folder
    assert lanes.PRE in second[0].installs[0] and lanes.PRE not in first[0].installs[0]


def test_without_a_driver_nothing_is_installed(
    nights: Path,
    monkeypatch: pytest.MonkeyPatch,
    ran: list[Sequence[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(lanes, "_DRIVER", "libnone.so.1")
    monkeypatch.setattr(commands, "_from_outside", lambda arguments: None)
    monkeypatch.setattr(commands, "_check_machine", lambda command: None)
    assert commands.main(["night", "pinned"]) == commands.EXIT_START
    assert "no NVIDIA driver is installed here" in capsys.readouterr().err
    assert not ran and not nights.exists()


def test_a_lane_is_one_of_two() -> None:
    with pytest.raises(StartError, match="unknown lane 'nightly': choose from pinned, rolling"):
        lanes.environments("nightly", False, emulated=True)


class Became(Exception):
    """Stands for the program that this process would be."""


def test_a_night_measures_both_frameworks_and_its_words_are_left_alone(
    nights: Path, monkeypatch: pytest.MonkeyPatch, ran: list[Sequence[str]]
) -> None:
    def become(program: str, command: Sequence[str]) -> Any:
        raise Became(command)

    monkeypatch.setattr(lanes, "require_driver", lambda: True)
    monkeypatch.setattr(os, "execv", become)
    monkeypatch.setattr(os, "chdir", lambda path: None)
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", "to be put back")
    monkeypatch.delenv("ALLOCMARK_PYTHON_TENSORFLOW")
    torch, tensorflow = lanes.environments("pinned", False, emulated=True)
    with pytest.raises(Became) as became:
        lanes.night(["pinned", "--record", "here", "--", "--subject", "--pre"])
    (command,) = became.value.args
    assert command == [
        *(str(torch.python), "-m", "allocmark.nightly", "--lane", "pinned"),
        *("--exit-regression", "0", "--record", "here", "--", "--subject", "--pre"),
    ]
    assert os.environ["ALLOCMARK_PYTHON_TENSORFLOW"] == str(tensorflow.python)
    lock = nights / f"{torch.folder.name}.lock"
    with lock.open("w") as handle, pytest.raises(BlockingIOError):  # The night holds it.
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
