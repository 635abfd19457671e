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
from replay_support import needs_torch

from allocmark.errors import EXIT_UNCLEAR
from allocmark.stopping import until_stopped

PACKAGE = Path(__file__).parents[1] / "suite" / "allocmark"
INSIDE = {
    *("asv_process.py", "interpreters.py", "stack.py", "importers/reading_process.py"),
    *("meters/nvml.py", "probes/ballast.py", "probes/child.py", "probes/context_processes.py"),
    *("probes/tensorflow_policy_worker.py", "probes/trial.py", "workloads/recording_process.py"),
}
"""What allocmark alone starts: its parent says what a person is told."""
TOLD = "allocmark: stopped by Ctrl-C: give the same command again\n"
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
    assert (done.returncode, done.stderr) == (EXIT_UNCLEAR, TOLD)


_PRINTING = """
import sys
from allocmark.stopping import until_stopped

def main():
    print("x" * int(sys.argv[1]))
    return 1

if __name__ == "__main__":
    raise SystemExit(until_stopped(main))
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

    assert until_stopped(broken) == EXIT_UNCLEAR
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
    assert "until_stopped(" in (PACKAGE / path).read_text()


_INTERRUPTING = """
import importlib.abc, os, signal, sys

class Interrupting(importlib.abc.MetaPathFinder):
    def __init__(self, name, after):
        self.name, self.after = name, after
    def find_spec(self, name, path, target=None):
        if name == self.name or not self.name:
            if not self.after:
                self.name, self.after = "none", True
                os.kill(os.getpid(), signal.SIGINT)
            elif name == self.name:
                self.name, self.after = "", False  # What is imported next.

sys.meta_path.insert(0, Interrupting(os.environ["AT"], bool(os.environ["AFTER"])))
"""
"""Ctrl-C where a module is imported, or right after it is found: where its own imports begin."""


def _interrupted(
    folder: Path, words: Sequence[str], at: str, after: bool, ignored: bool = False
) -> tuple[int, str]:
    """Return exit code and standard error of ``python -m`` interrupted while it imports."""
    (folder / "sitecustomize.py").write_text(_INTERRUPTING)
    handler = signal.SIG_IGN if ignored else signal.SIG_DFL
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder), "AT": at, "AFTER": "1" if after else ""},
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


@pytest.mark.parametrize("path", _PROGRAMS)
def test_ctrl_c_while_a_program_is_imported_is_a_sentence(path: str, tmp_path: Path) -> None:
    own = ".".join(("allocmark", *Path(path).with_suffix("").parts))
    words = [own.removesuffix(".__main__"), "--help"]
    assert _interrupted(tmp_path, words, own, after=False) == (EXIT_UNCLEAR, TOLD)


@pytest.mark.parametrize(
    ("at", "after"), [("compare", False), ("compare.model", False), ("compare.power", True)]
)
def test_from_its_package_to_its_last_import(at: str, after: bool, tmp_path: Path) -> None:
    words = ["allocmark.compare.power", "--help"]
    found = _interrupted(tmp_path, words, f"allocmark.{at}", after)
    assert found == (EXIT_UNCLEAR, TOLD)


def test_ctrl_c_that_is_to_be_ignored_is(tmp_path: Path) -> None:
    own = "allocmark.emulator.derive"
    assert _interrupted(tmp_path, [own, "--help"], own, after=True, ignored=True) == (0, "")


def test_a_program_of_somebody_elses_keeps_its_ctrl_c(tmp_path: Path) -> None:
    """Its package imports allocmark while Python looks for the program."""
    package = tmp_path / "theirs"
    package.mkdir()
    (package / "__init__.py").write_text("import allocmark")
    (package / "train.py").write_text("import signal; print(signal.getsignal(2).__name__)")
    done = subprocess.run(
        [sys.executable, "-m", "theirs.train", "allocmark"],
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "default_int_handler\n"
