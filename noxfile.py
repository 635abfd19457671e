"""Sessions for developers: ``nox`` checks everything, ``nox -s lock`` renews the locks.

What needs the project set up goes through ``suite/start.py``, as for a user, so that there is one
way to set it up and CI needs no nox.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import nox

nox.needs_version = ">=2024.10"
nox.options.sessions = ["lint", "tests"]

_START = ("python3", "suite/start.py")
# Each lock holds the ones before it, and keeps their versions.
_LOCKS = {
    "core": (),
    "report": ("report",),
    "site": ("report", "site"),
    "test": ("report", "site", "test"),
    "dev": ("report", "site", "test", "dev"),
    "torch": ("torch",),
    "accuracy": ("torch", "accuracy"),
    "tensorflow": ("tensorflow",),
    "tensorflow-cuda": ("tensorflow-cuda",),
}
_TRIED = {
    "torch-2.9": "torch==2.9.*",
    "torch-newest": "torch",
    "tensorflow-2.19": "tensorflow==2.19.*",
    "tensorflow-2.20": "tensorflow==2.20.*",
    "tensorflow-newest": "tensorflow",
    "tensorflow-nightly": "tf-nightly>=2.22.0.dev0",
}
"""What the emulated driver is tried with: the oldest and the newest of each, CUDA 12 and 13."""
_VERSIONS = Path("docs/versions.md")
_COLUMNS = ("framework", "version", "CUDA", "Python", "passed", "failed", "skipped", "on")


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Run ruff and mypy."""
    session.run(*_START, "lint", external=True)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run the tests; arguments go to pytest."""
    session.run(*_START, "test", *session.posargs, external=True)


@nox.session(venv_backend="none")
def faults(session: nox.Session) -> None:
    """Break all that can be broken, each kind of fault of the driver at every stage: minutes."""
    every = {"ALLOCMARK_TEST_EVERY_FAULT": "1"}
    session.run(*_START, "test", "-m", "fault", *session.posargs, env=every, external=True)


@nox.session(venv_backend="none")
def slurm(session: nox.Session) -> None:
    """Submit the Slurm examples to a real Slurm of two nodes on this machine.

    Needs root and Debian's packages: apt install slurm-wlm munge.
    """
    words = ("tests/end_to_end/test_slurm.py", "-n", "0", *session.posargs)
    session.run(*_START, "test", *words, env={"ALLOCMARK_TEST_SLURM": "1"}, external=True)


@nox.session(venv_backend="none", name="nightly-rehearsal")
def nightly_rehearsal(session: nox.Session) -> None:
    """Do three nights of both lanes on the emulated driver, a regression planted in the third.

    Makes their environments, gigabytes in all, and removes them.
    """
    words = ("tests/end_to_end/test_nightly_rehearsal.py", "-n", "0", *session.posargs)
    session.run(*_START, "test", *words, env={"ALLOCMARK_TEST_NIGHTS": "1"}, external=True)


@nox.session(venv_backend="none")
def budgets(session: nox.Session) -> None:
    """Print what is taken of each budget of time, on a machine that does nothing else."""
    noted = Path(session.create_tmp(), "budgets.jsonl").absolute()
    noted.unlink(missing_ok=True)
    env = {"ALLOCMARK_TEST_BUDGETS": str(noted)}
    session.run(
        *_START, "test", "-n", "0", "-m", "budget", *session.posargs, env=env, external=True
    )
    rows = [json.loads(line) for line in noted.read_text().splitlines()]
    for name, taken, allowed in sorted(rows, key=lambda row: row[2] / row[1]):
        print(f"{taken / allowed:6.2f} of {name} ({taken:.3g} of {allowed:g})")
    if any(taken > allowed for _name, taken, allowed in rows):
        session.error("a budget was exceeded")


@nox.session(venv_backend="none")
def run(session: nox.Session) -> None:
    """Measure, on the emulated driver where there is no GPU; arguments go to `allocmark run`."""
    session.run(*_START, "run", *session.posargs, external=True)


@nox.session
def lock(session: nox.Session) -> None:
    """Write requirements/ anew with the newest versions that the project allows."""
    session.install("uv")
    before: list[str] = []
    for name, extras in _LOCKS.items():
        path = f"requirements/{name}.txt"
        session.run(
            *("uv", "pip", "compile", "pyproject.toml", "--quiet", "--upgrade"),
            *("--universal", "--python-version", "3.11", "--generate-hashes"),
            "--no-header",  # It names the command, and uv writes no addresses unless asked.
            *(word for extra in extras for word in ("--extra", extra)),
            *before,
            *("--output-file", path),
        )
        before = ["--constraint", path]


@nox.session
@nox.parametrize("tried", list(_TRIED))
def versions(session: nox.Session, tried: str) -> None:
    """Try other versions on the emulated driver and note how it went: gigabytes each."""
    session.install("-e", ".[test]", _TRIED[tried])
    framework = tried.partition("-")[0]
    found = json.loads(str(session.run("python", "-m", "allocmark.machine.stack", silent=True)))
    stack = [framework, *(str(found[key]) for key in (framework, f"{framework} cuda", "python"))]
    outcome = Path(session.create_tmp(), "outcome.xml")
    outcome.unlink(missing_ok=True)
    command = ("python", "-m", "pytest", "-q", f"tests/emulator/test_{framework}.py")
    # 1: some tests failed, which is an outcome too.
    session.run(*command, f"--junitxml={outcome}", success_codes=[0, 1])
    failed = _note_version(stack, outcome)
    if failed:
        session.error(f"{failed} tests failed with {_TRIED[tried]}")


def _note_version(stack: list[str], outcome: Path) -> int:
    """Put one row into the table of versions, in the place of an older one; returns failures.

    What else the page says is left as it is.
    """
    (suite,) = ElementTree.parse(outcome).iter("testsuite")
    count = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - failed - count["skipped"]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    head = _row(_COLUMNS)
    before, _, rest = _VERSIONS.read_text().partition(head)
    table, _, after = rest.partition("\n\n")
    rows = {tuple(cells[:2]): cells for cells in map(_cells, table.splitlines()[2:])}
    rows[stack[0], stack[1]] = [*stack, *map(str, (passed, failed, count["skipped"])), today]
    lines = [head, _row(["---"] * len(_COLUMNS)), *map(_row, sorted(rows.values(), key=_order))]
    _VERSIONS.write_text(before + "\n".join(lines) + ("\n\n" + after if after else "\n"))
    return failed


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cells(row: str) -> list[str]:
    return [cell.strip() for cell in row.strip().strip("|").split("|")]


def _order(cells: Sequence[str]) -> tuple[bool, list[int]]:
    numbers = [int(number) for number in re.findall(r"\d+", cells[1].partition("+")[0])]
    return cells[0] != "torch", numbers


@nox.session(venv_backend="none")
@nox.parametrize("lane", ["pinned", "rolling"])
def nightly(session: nox.Session, lane: str) -> None:
    """One night of a lane: measure, gate, find the factor, publish. Arguments: docs/nightly.md.

    *pinned* has the frameworks of the locks, so it finds what a driver changes. *rolling* has the
    newest that pip finds, ``--pre`` among the arguments: pre-releases too; where pip looks is the
    user's own setting.
    """
    session.run(*_START, "night", lane, *session.posargs, external=True)


@nox.session
def publish(session: nox.Session) -> None:
    """Build the site: docs, report, history and data in one folder, build/site."""
    session.install("--require-hashes", "-r", "requirements/site.txt")
    session.install("--no-deps", "-e", ".")
    session.run("python", "-m", "allocmark.publish", *session.posargs)
