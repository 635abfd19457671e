"""Real programs whose allocations are recorded: each a module with ``STEPS`` and ``run``.

Every program is seeded, draws its shapes before it starts, uses one stream, and never branches on
a value that the GPU computed: its sequence of allocations is the same on every run, and on the
emulated driver, which computes nothing. Autocast's cache of weights is off for the same reason: it
frees them in the order of host addresses, which differ from run to run.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

from allocmark.system.errors import UnknownNameError

NAMES = ("transformer", "convnet", "serving")


class Program(Protocol):
    """What a program's module offers."""

    STEPS: int
    """How many steps a recording takes."""

    def run(self, steps: int, device: int) -> None:
        """Run the program on a CUDA device; on return nothing of it is alive."""


def program(name: str) -> Program:
    """Return the program of that name. Raises `UnknownNameError`."""
    if name not in NAMES:
        raise UnknownNameError("program", name, list(NAMES))
    return cast(Program, importlib.import_module(f"{__name__}.{name}"))
