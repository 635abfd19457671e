"""Which Python measures a framework, and how a module of the suite is started in it.

``ALLOCMARK_PYTHON_<FRAMEWORK>`` names one: an interpreter, or a program that sets variables and
becomes one; what ``start.py run --tensorflow`` has made is known without. It needs no allocmark of
its own: variables name where this one lies. A process in
another interpreter can in turn start those of the first one, which a variable names.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SUITE = str(Path(__file__).resolve().parents[2])
_PATHS = _PYTHON_PATH, _LIBRARY_PATH = "PYTHONPATH", "LD_LIBRARY_PATH"
_FIRST, _CURRENT = "ALLOCMARK_FIRST_PYTHON", "ALLOCMARK_CURRENT_PYTHON"
"""In the processes of the other interpreters: the run's, with its paths, and what started them."""
# As an argument too: a program that sets variables may set this one. The children of the child
# find the suite by the variable.
_START = f"""
import os, runpy, sys
suite, module = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, suite)
paths = [path for path in os.environ.get({_PYTHON_PATH!r}, "").split(os.pathsep) if path]
if suite not in paths:
    os.environ[{_PYTHON_PATH!r}] = os.pathsep.join([suite, *paths])
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def variable(framework: str) -> str:
    """Return the name of the variable that names a framework's interpreter."""
    return f"ALLOCMARK_PYTHON_{framework.upper()}"


def interpreter(framework: str) -> str:
    """Return the Python that measures a framework: what the user has named, or the run's."""
    return named(framework) or _first(os.environ)[0]


def named(framework: str) -> str | None:
    """Return the Python of a framework's own: what the user has named, or `start.py` has made.

    That lies beside the run's environment. A variable that is set and empty names none.
    """
    told = os.environ.get(variable(framework))
    if told is not None:
        return told or None
    environment = Path(_first(os.environ)[0]).parent.parent
    made = environment.with_name(f"{environment.name}-{framework}") / "bin" / "python"
    return str(made) if environment.name and os.access(made, os.X_OK) else None


def leave_out(framework: str, reason: str) -> None:
    """Start no process of this framework from here on, nor from the processes of this one."""
    os.environ[_left_out(framework)] = reason


def left_out(framework: str) -> str | None:
    """Return why no process of this framework is started, None where some may be."""
    return os.environ.get(_left_out(framework))


def is_this(framework: str) -> bool:
    """Whether this process runs in the interpreter, and under the variables, of a framework."""
    return interpreter(framework) == (os.environ.get(_CURRENT) or sys.executable)


def command(framework: str, module: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command that runs a module of the suite in the framework's interpreter."""
    if is_this(framework):
        return [sys.executable, "-m", module, *arguments]
    return [interpreter(framework), "-c", _START, SUITE, module, *arguments]


def environment(framework: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for that command: paths of one interpreter stay out of another's."""
    if is_this(framework):
        return dict(variables)
    python = interpreter(framework)
    first, packages, libraries = _first(variables)
    changed = {
        **variables,
        _PYTHON_PATH: packages if python == first else SUITE,
        _LIBRARY_PATH: libraries,
        _FIRST: json.dumps([first, packages, libraries]),
        _CURRENT: python,
    }
    return {name: value for name, value in changed.items() if value or name not in _PATHS}


def _left_out(framework: str) -> str:
    return f"ALLOCMARK_LEFT_OUT_{framework.upper()}"


def _first(variables: Mapping[str, str]) -> tuple[str, str, str]:
    """Return the run's interpreter and its search paths, for packages and for libraries."""
    if _FIRST not in variables:
        return sys.executable, variables.get(_PYTHON_PATH, ""), variables.get(_LIBRARY_PATH, "")
    first, packages, libraries = json.loads(variables[_FIRST])
    return first, packages, libraries
