"""What moved between two stacks, and which of it a rerun can put back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from allocmark.compare.model import Change

_SYSTEM = (
    *("driver", "cuda", "kernel", "gpu", "power limit", "persistence mode", "CPU", "CPU governor"),
    *("container", "ECC", "MIG", "MPS", "host memory", "number of CPUs"),
)
"""Facts of the machine: a rerun tonight is under the new ones in any case."""
_SAID = {"cuda": "newest CUDA that the driver serves", "gpu": "GPU"}
_REPEATED = {"framework_version", "emulated", "framework"}
"""Said already by the package's own name, or no factor."""


@dataclass(frozen=True)
class Factors:
    """What differs, apart: the machine with its driver, and what is installed for Python."""

    system: tuple[Change, ...]
    software: tuple[Change, ...]

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        return bool(self.system or self.software)

    def sentence(self) -> str:
        """Return what moved in one sentence."""
        moved = [f"{c.name} {c.a} to {c.b}" for c in (*self.system, *self.software)]
        return f"moved: {', '.join(moved)}" if moved else "nothing in the stack moved"


def factors(environment: Sequence[Change]) -> Factors:
    """Sort the differences of a comparison's environment."""
    system = [change for change in environment if change.name in _SYSTEM]
    left_out = {*_SYSTEM, *_REPEATED}
    return Factors(
        tuple(Change(_SAID.get(each.name, each.name), each.a, each.b) for each in system),
        tuple(change for change in environment if change.name not in left_out),
    )
