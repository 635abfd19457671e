"""A command in the user's place: signals reach it once, its status comes back, nothing stays."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.fault

CHILD = """
import signal, sys
def end(*_):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(3)
signal.signal(signal.SIGINT, end)
print("up", flush=True)
signal.pause()
"""
PARENT = """
import os, signal, sys
from allocmark.system import foreground
status = foreground.run([sys.executable, "-c", sys.argv[1]], os.environ)
os.kill(os.getpid(), signal.SIGINT)  # Pressed once more, as this process ends.
sys.exit(status)
"""
RUN = """
import os, sys
from allocmark.system import foreground
sys.exit(foreground.run([sys.executable, "-c", sys.argv[1]], os.environ))
"""
SLEEP = ["sh", "-c", "exec sleep 100 >/dev/null 2>&1 </dev/null"]
NESTED = """
import os, subprocess, sys
from pathlib import Path
from allocmark.system import foreground
sleep = "import os, time; print(os.getpid(), flush=True); time.sleep(100)"
inner = f"import os, sys; from allocmark.system import foreground; print(os.getpid(), flush=True); "
inner += f"foreground.run([sys.executable, '-c', {sleep!r}], os.environ)"
outer = "import os, subprocess, sys; print(os.getpid(), flush=True); "
outer += f"subprocess.run([sys.executable, '-c', {inner!r}], start_new_session=True)"
leaves = [Path(word) for word in sys.argv[1:]]
foreground.run([sys.executable, "-c", outer], os.environ, leaves)
"""
OWN = """
import os, signal, sys
from allocmark.system import foreground
status = foreground.run([sys.executable, "-c", "raise SystemExit(5)"], os.environ)
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
sys.exit(status)
"""


@pytest.mark.parametrize("times", [1, 3])
def test_ctrl_c_again_does_not_take_the_place_of_the_exit_status(times: int) -> None:
    command = [sys.executable, "-c", PARENT, CHILD]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "up\n"
        for _ in range(times):
            os.killpg(process.pid, signal.SIGINT)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (3, "")


def test_without_ctrl_c_the_handlers_are_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", OWN], check=False, timeout=30)
    assert done.returncode == 5


COUNTING = """
import signal, sys, time
got = []
for name in ("INT", "TERM", "HUP", "QUIT", "USR1", "USR2"):
    signal.signal(getattr(signal, "SIG" + name), lambda number, _: got.append(number))
print("up", flush=True)
while not got:
    signal.pause()
end = time.monotonic() + 1
while time.monotonic() < end:
    time.sleep(0.05)
sys.exit(len(got) * 100 + got[0])
"""
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1", "SIGUSR2")


@pytest.mark.parametrize("name", _SIGNALS)
@pytest.mark.parametrize("send", [os.kill, os.killpg])
def test_each_signal_reaches_the_command_once(name: str, send: Callable[[int, int], None]) -> None:
    """Whether it was sent to the launcher alone or to its whole group, as Ctrl-C is."""
    number = signal.Signals[name]
    command = [sys.executable, "-c", RUN, COUNTING]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        assert process.stdout and process.stdout.readline() == "up\n"
        send(process.pid, number)
        _, error = process.communicate(timeout=30)
    assert (process.returncode, error) == (100 + number, "")


def test_a_launcher_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    """Its command, that one's child in another session, launchers among them, files, folders."""
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "file").touch()
    (tmp_path / "link").symlink_to(tmp_path / "made")
    kept = tmp_path / "kept"
    kept.touch()
    leaves = [tmp_path / "made", tmp_path / "link", tmp_path / "gone before"]
    with subprocess.Popen(
        [sys.executable, "-c", NESTED, *map(str, leaves)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        pids = [int(process.stdout.readline()) for _ in range(3)]
        process.kill()
        process.stdout.read()  # All that could write has ended.
    _wait_until(lambda: not any(map(_is_running, pids)))
    _wait_until(lambda: sorted(path.name for path in tmp_path.iterdir()) == ["kept"])


def test_what_a_command_leaves_running_of_its_own_will_is_left_alone(tmp_path: Path) -> None:
    code = f"import subprocess; print(subprocess.Popen({SLEEP!r}, start_new_session=True).pid)"
    done = subprocess.run(
        [sys.executable, "-c", RUN, code], stdout=subprocess.PIPE, text=True, check=True, timeout=30
    )
    pid = int(done.stdout)
    assert _is_running(pid)
    os.kill(pid, signal.SIGKILL)


def _is_running(pid: int) -> bool:
    try:
        return Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _wait_until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)
