"""Sessions for developers: ``nox`` checks everything, ``nox -s lock`` renews the locks.

What needs the project set up goes through ``suite/start.py``, as for a user, so that there is one
way to set it up and CI needs no nox.
"""

from __future__ import annotations

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
