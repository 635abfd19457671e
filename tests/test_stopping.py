"""Ctrl-C in programs that are started by ``python -m``: one sentence and exit code 3."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from allocmark.errors import EXIT_UNCLEAR
from allocmark.stopping import until_stopped

PACKAGE = Path(__file__).parents[1] / "suite" / "allocmark"
INSIDE = {
    *("asv_process.py", "interpreters.py", "stack.py", "importers/reading_process.py"),
    *("meters/nvml.py", "probes/ballast.py", "probes/child.py", "probes/context_processes.py"),
    *("probes/tensorflow_policy_worker.py", "probes/trial.py", "workloads/recording_process.py"),
}
"""What allocmark alone starts: its parent says what a person is told."""
_STOPPED = """
import os, signal, sys
from allocmark.stopping import until_stopped

def main():
    exec("os.kill(os.getpid(), signal.SIGINT); [0 for _ in range(10**8)]")
    return 0

if __name__ == "__main__":
    raise SystemExit(until_stopped(main))
"""


def test_what_ends_by_itself_ends_so() -> None:
    assert until_stopped(lambda: 7) == 7


def test_ctrl_c_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "stopped.py").write_text(_STOPPED)
    done = subprocess.run(
        [sys.executable, "-m", "stopped"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        capture_output=True,
        text=True,
        check=False,
    )
    told = "allocmark: stopped by Ctrl-C: give the same command again\n"
    assert (done.returncode, done.stderr) == (EXIT_UNCLEAR, told)


@pytest.mark.parametrize(
    "path",
    sorted(
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        if re.search(r'^if __name__ == "__main__"', path.read_text(), re.MULTILINE)
    ),
)
def test_every_program_of_a_users_ends_so(path: str) -> None:
    if path not in INSIDE:
        assert "until_stopped(" in (PACKAGE / path).read_text()
