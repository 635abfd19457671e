"""Which frameworks have a stack of their own, and which subjects are measured under which stack.

On a GPU PyTorch and TensorFlow need different CUDA libraries, so each has its interpreter, its
asv environment and its folder of documents; one run fills both. What belongs to neither (the bare
driver, CuPy) is measured once, under the first.
"""

from __future__ import annotations

from dataclasses import dataclass

from allocmark.machine.stack import installed, lacks_cuda
from allocmark.system import interpreters

TRACKED = ("torch", "tensorflow")
"""In this order: the first that is found stands for the bare driver too."""


@dataclass(frozen=True, slots=True)
class Share:
    """One stack's part of a run: the framework it is named by, and all that have a stack in it."""

    framework: str
    among: tuple[str, ...]

    def holds(self, framework: str) -> bool:
        """Whether what needs that framework is measured under this stack."""
        return self.framework == (framework if framework in self.among else self.among[0])


def found() -> tuple[str, ...]:
    """Return the tracked frameworks that are installed with CUDA and not left out of this run.

    Where there is none it is the first all the same, so that everything has a stack to say so
    under. Raises `AllocmarkError` where an interpreter that the user has named cannot be asked.
    """
    here = tuple(name for name in TRACKED if why_absent(name) is None)
    return here or TRACKED[:1]


def shares() -> list[Share]:
    """Return the parts of a run on this machine, one for each framework that is found."""
    among = found()
    return [Share(framework, among) for framework in among]


def why_absent(framework: str) -> str | None:
    """Return why a tracked framework has no stack, None where it has.

    Raises `AllocmarkError` where an interpreter that the user has named cannot be asked.
    """
    if reason := interpreters.left_out(framework):
        return reason
    versions, where = installed(framework), interpreters.interpreter(framework)
    if not versions.get(framework):
        return f"{framework} is not installed for {where}"
    if lacks_cuda(framework, versions):
        return f"{framework} {versions[framework]} of {where} is a build without CUDA"
    return None
