"""Two runs at once: the second is refused, whatever the first is, until that ends."""

from __future__ import annotations

import errno
import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from allocmark.store.run_lock import FILE_NAME, RunningError, held

pytestmark = pytest.mark.fault

HOLD = """
import sys, time
from pathlib import Path
from allocmark.store.run_lock import held
with held([Path(sys.argv[1])]):
    print("held", flush=True)
    time.sleep(60)
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Start a process that holds a folder."""
    command = [sys.executable, "-c", HOLD, str(folder)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "held\n"
    return process


@pytest.mark.parametrize("profile", ["quick", "full"])
def test_a_second_run_is_refused_until_the_first_is_gone(tmp_path: Path, profile: str) -> None:
    folder = tmp_path / "gpu" / "stack" / "quick"
    with holder(folder) as process:
        with (
            pytest.raises(RunningError, match=rf"\(process {process.pid} on ") as raised,
            held([tmp_path / "gpu" / "another" / "quick", folder.parent / profile]),
        ):
            pass
        assert raised.value.exit_code == 2
        with held([tmp_path / "gpu" / "another" / "quick"]):
            pass  # Another stack; the one that was refused has kept nothing.
        process.send_signal(signal.SIGKILL)
    # What it left says nothing once it is gone.
    assert (folder.parent / FILE_NAME).exists()
    with held([folder]):
        pass
    assert not list(tmp_path.rglob(FILE_NAME))


def test_a_program_that_outlives_its_run_holds_nothing(tmp_path: Path) -> None:
    with held([tmp_path / "stack" / "quick"]):
        child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    with held([tmp_path / "stack" / "quick"]):
        child.communicate(b"\n")


def test_a_file_that_was_removed_meanwhile_is_made_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "stack" / FILE_NAME
    real = fcntl.flock
    times: list[int] = []

    def flock(handle: int, how: int) -> None:
        if not times:  # The run that held it ends between the opening and the locking.
            path.unlink()
        times.append(how)
        real(handle, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    with held([path.parent / "quick"]):
        assert path.read_text().startswith(f"{os.getpid()} on ")
    assert len(times) == 2


def test_without_locks_in_the_file_system_a_run_goes_on(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def none(handle: int, how: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", none)
    with held([tmp_path / "stack" / "quick"]), held([tmp_path / "stack" / "quick"]):
        pass
