"""Which Python measures a framework, and how a module of the suite is started in it.

``ALLOCMARK_PYTHON_<FRAMEWORK>`` names one: an interpreter, or a program that sets variables and
becomes one. It needs no allocmark of its own, since it is told where this one lies.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

SUITE = str(Path(__file__).resolve().parents[1])
_PATH = "PYTHONPATH"
# As an argument too: a program that sets variables may set this one. The children of the child
# find the suite by the variable.
_START = f"""
import os, runpy, sys
suite, module = sys.argv.pop(1), sys.argv.pop(1)
sys.path.insert(0, suite)
paths = [path for path in os.environ.get({_PATH!r}, "").split(os.pathsep) if path]
if suite not in paths:
    os.environ[{_PATH!r}] = os.pathsep.join([suite, *paths])
runpy.run_module(module, run_name="__main__", alter_sys=True)
"""


def variable(framework: str) -> str:
    """Return the name of the variable that names a framework's interpreter."""
    return f"ALLOCMARK_PYTHON_{framework.upper()}"


def interpreter(framework: str) -> str:
    """Return the Python that measures a framework: the one that the user has named, or this one."""
    return os.environ.get(variable(framework)) or sys.executable


def command(framework: str, module: str, arguments: Sequence[str] = ()) -> list[str]:
    """Return the command that runs a module of the suite in the framework's interpreter."""
    python = interpreter(framework)
    if python == sys.executable:
        return [python, "-m", module, *arguments]
    return [python, "-c", _START, SUITE, module, *arguments]


def environment(framework: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for that command: packages of this interpreter stay out of another's."""
    if interpreter(framework) == sys.executable:
        return dict(variables)
    return {**variables, _PATH: SUITE}
