"""Programs that are started by ``python -m`` and ended from outside.

Ctrl-C: one sentence and exit code 3. Nobody who reads: no word, and a code that is none of ours.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from allocmark.system.command_line import run
from allocmark.system.errors import EXIT_FINE, EXIT_UNCLEAR, AllocmarkError
from tests.support.emulation import needs_torch

pytestmark = pytest.mark.fault

PACKAGE = Path(__file__).parents[2] / "suite" / "allocmark"
INSIDE = {
    *("system/interpreters.py", "machine/stack.py", "machine/nvml.py", "measure/trial.py"),
    *("measure/context_holder.py", "recording/importers/reading_process.py"),
    *("experiments/child.py", "experiments/shared/ballast.py", "experiments/context/processes.py"),
    *("experiments/tensorflow_policy/worker.py", "tools/recording_process.py"),
    *("experiments/preloading.py", "tools/accuracy/program_process.py"),
    *("check/driver_part.py", "check/peer_part.py", "check/torch_part.py"),
}
"""What allocmark alone starts: its parent says what a person is told."""
TOLD = "allocmark: stopped by Ctrl-C: give the same command again\n"
_STOPPED = """
import os, signal, time
from allocmark.system.command_line import run

def main():
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)
    return 0

if __name__ == "__main__":
    raise SystemExit(run(main))
"""


def test_what_ends_by_itself_is_fine() -> None:
    assert run(lambda: 7) == EXIT_FINE


def test_an_exit_code_is_kept() -> None:
    assert run(lambda: sys.exit(7)) == 7
    assert run(sys.exit) == EXIT_FINE


def test_the_last_words_of_a_library_are_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(lambda: sys.exit("no such device")) == EXIT_UNCLEAR
    assert capsys.readouterr().err == "no such device\n"


@pytest.mark.parametrize("is_reported", [True, False])
def test_an_error_is_one_sentence_unless_it_has_been_reported(
    is_reported: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse() -> None:
        error = AllocmarkError("no such thing: name another")
        error.is_reported = is_reported
        raise error

    assert run(refuse) == 2
    said = "" if is_reported else "allocmark: no such thing: name another\n"
    assert capsys.readouterr() == ("", said)


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
    assert (done.returncode, done.stderr) == (EXIT_UNCLEAR, TOLD)


_PRINTING = """
import sys
from allocmark.system.command_line import run

def main():
    print("x" * int(sys.argv[1]))

if __name__ == "__main__":
    raise SystemExit(run(main))
"""


@pytest.mark.parametrize("characters", [1, 1_000_000])  # Within and beyond what is buffered.
def test_a_reader_that_has_gone_is_no_fault(characters: int, tmp_path: Path) -> None:
    (tmp_path / "printing.py").write_text(_PRINTING)
    path = {"PYTHONPATH": str(tmp_path)}
    assert _unread([sys.executable, "-m", "printing", str(characters)], path) == (141, "")


@pytest.mark.parametrize("words", ["doctor", "report --format md"])
def test_a_command_whose_reader_has_gone_does_not_end_as_one_that_found_something(
    words: str,
) -> None:
    assert _unread([sys.executable, "-m", "allocmark", *words.split()], {}) == (141, "")


def test_a_fault_of_our_own_never_ends_as_a_regression(
    capsys: pytest.CaptureFixture[str],
) -> None:
    def broken() -> int:
        raise ZeroDivisionError("ours")

    assert run(broken) == EXIT_UNCLEAR
    assert "ZeroDivisionError: ours" in capsys.readouterr().err


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-", "2>/dev/full"])
@pytest.mark.parametrize("words", ["list", "--help", "report --format md"])
def test_closed_streams_change_no_exit_code(words: str, closed: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f"{sys.executable} -m allocmark {words} {closed}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closed", ["2>&-", "2>/dev/full", "<&- >&- 2>&-"])
@needs_torch
def test_a_run_that_nobody_watches_measures_all_the_same(closed: str, tmp_path: Path) -> None:
    allocmark = f"{sys.executable} -m allocmark"
    run = "run --quick --experiment placement --subject torch-native --results results"
    done = subprocess.run(
        ["sh", "-c", f"{allocmark} emulate -- {allocmark} {run} {closed}"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        check=False,
    )
    found = list((tmp_path / "results").rglob("placement.torch-native.*"))
    assert (done.returncode, len(found)) == (0, 1)


def _unread(command: Sequence[str], environment: Mapping[str, str]) -> tuple[int, str]:
    """Return how a program ends, and what it says, whose output nobody reads."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    with os.fdopen(write_end, "wb") as nobody:
        done = subprocess.run(
            command,
            env={**os.environ, **environment},
            stdout=nobody,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    return done.returncode, done.stderr


_PROGRAMS = sorted(
    str(path.relative_to(PACKAGE))
    for path in PACKAGE.rglob("*.py")
    if re.search(r'^if __name__ == "__main__"', path.read_text(), re.MULTILINE)
    and str(path.relative_to(PACKAGE)) not in INSIDE
)


@pytest.mark.parametrize("path", _PROGRAMS)
def test_every_program_of_a_users_ends_so(path: str) -> None:
    assert re.search(r"SystemExit\((main\(\)|run_command\()", (PACKAGE / path).read_text())
