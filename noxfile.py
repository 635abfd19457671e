"""Sessions for developers: ``nox`` checks everything, ``nox -s lock`` renews the locks.

What needs the project set up goes through ``suite/start.py``, as for a user, so that there is one
way to set it up and CI needs no nox.
"""

from __future__ import annotations

import datetime
import json
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
    "test": ("report", "test"),
    "dev": ("report", "test", "dev"),
    "torch": ("torch",),
}
_TORCHES = {"2.9": "torch==2.9.*", "newest": "torch"}
"""The oldest and the newest that the emulated driver is tried with: CUDA 12 and 13."""
_VERSIONS = Path("docs/versions.md")
_VERSIONS_HEAD = """# Versions of PyTorch tried on the emulated driver

Written by `nox -s versions`, which installs each into an environment of its own and runs
`tests/emulator/test_torch.py` there.

| torch | CUDA | Python | passed | failed | skipped | on |
| --- | --- | --- | --- | --- | --- | --- |
"""
_ASK = "import json, platform, torch as t; " + (
    "print(json.dumps([t.__version__, t.version.cuda, platform.python_version()]))"
)


@nox.session(venv_backend="none")
def lint(session: nox.Session) -> None:
    """Run ruff and mypy."""
    session.run(*_START, "lint", external=True)


@nox.session(venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run the tests; arguments go to pytest."""
    session.run(*_START, "test", *session.posargs, external=True)


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
            *("--no-header", "--no-emit-index-url", "--no-emit-find-links"),
            *(word for extra in extras for word in ("--extra", extra)),
            *before,
            *("--output-file", path),
        )
        before = ["--constraint", path]


@nox.session
@nox.parametrize("torch", list(_TORCHES))
def versions(session: nox.Session, torch: str) -> None:
    """Try other versions of torch on the emulated driver and note how it went: gigabytes each."""
    session.install("-e", ".[test]", _TORCHES[torch])
    told = session.run("python", "-c", _ASK, silent=True)
    outcome = Path(session.create_tmp(), "outcome.xml")
    outcome.unlink(missing_ok=True)
    command = ("python", "-m", "pytest", "-q", "tests/emulator/test_torch.py")
    # 1: some tests failed, which is an outcome too.
    session.run(*command, f"--junitxml={outcome}", success_codes=[0, 1])
    failed = _note_version([str(field) for field in json.loads(str(told))], outcome)
    if failed:
        session.error(f"{failed} tests failed with {_TORCHES[torch]}")


def _note_version(told: list[str], outcome: Path) -> int:
    """Put one row into the table of versions, in the place of an older one; returns failures."""
    (suite,) = ElementTree.parse(outcome).iter("testsuite")
    count = {name: int(suite.attrib[name]) for name in ("tests", "failures", "errors", "skipped")}
    failed = count["failures"] + count["errors"]
    passed = count["tests"] - failed - count["skipped"]
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    cells = [*told, str(passed), str(failed), str(count["skipped"]), today]
    old = _VERSIONS.read_text().splitlines() if _VERSIONS.exists() else []
    rows = {
        line.split("|")[1].strip(): line for line in old if line.startswith("| ") and "+" in line
    }
    rows[told[0]] = f"| {' | '.join(cells)} |"
    ordered = sorted(
        rows.values(), key=lambda row: [int(n) for n in row.split("+")[0][2:].split(".")]
    )
    _VERSIONS.write_text(_VERSIONS_HEAD + "\n".join(ordered) + "\n")
    return failed
