"""A command in the user's place: its exit status comes back, however often Ctrl-C is pressed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

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
