"""Real programs whose allocations are recorded: each a module that offers a `Program`.

Every program is seeded, draws its shapes before it starts, uses one stream, and never branches on
a value that the GPU computed: its sequence of allocations is the same on every run, and on the
emulated driver, which computes nothing. Autocast's cache of weights is off for the same reason: it
frees them in the order of host addresses, which differ from run to run.
"""

from __future__ import annotations

import importlib
import pkgutil
from typing import Protocol, cast

from allocmark.system.errors import UnknownNameError
from allocmark.system.message import Text


class Program(Protocol):
    """What a program's module offers."""

    DESCRIPTION: Text
    """What the workload that is recorded of it stands for, in half a sentence."""
    ORDER: int
    """Its place in lists: lower ones first."""
    STEPS: int
    """How many steps a recording takes."""

    def run(self, steps: int, device: int) -> None:
        """Run the program on a CUDA device; on return nothing of it is alive."""


def _programs() -> dict[str, Program]:
    found = {
        info.name: cast(Program, importlib.import_module(f"{__name__}.{info.name}"))
        for info in pkgutil.iter_modules(__path__)
    }
    return dict(sorted(found.items(), key=lambda item: item[1].ORDER))


PROGRAMS = _programs()
NAMES = tuple(PROGRAMS)


def program(name: str) -> Program:
    """Return the program of that name. Raises `UnknownNameError`."""
    if name not in PROGRAMS:
        raise UnknownNameError("program", name, list(NAMES))
    return PROGRAMS[name]
