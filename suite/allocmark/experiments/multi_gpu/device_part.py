"""What the parts of the experiment have in common: GPUs by UUID, programs in forks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from allocmark.allocators import registry
from allocmark.experiments.core.parts import Part
from allocmark.experiments.core.recorder import Cell, Recorder, in_words
from allocmark.experiments.shared.forked import in_fork
from allocmark.machine.nvml import VISIBLE

_FORK_LIMIT_S = 60.0


class DevicePart(Part):
    """A part of `multi_gpu`; parameter ``uuids`` names the GPUs, in the order of CUDA."""

    limit_s = 180.0

    @property
    def uuids(self) -> list[str]:
        """The GPUs, whether this process may see them or not."""
        uuids: list[str] = self.parameters["uuids"]
        return uuids

    @property
    def seen(self) -> Sequence[int]:
        """Those that this process may see, all where nothing is said of it."""
        return range(len(self.uuids))

    def environment(self) -> Mapping[str, str]:
        known = registry().get(self.subject)
        variables = dict(known.environment) if known else {}
        if len(self.seen) < len(self.uuids):
            variables[VISIBLE] = ",".join(self.uuids[gpu] for gpu in self.seen)
        return variables


def run_in_fork(
    name: str,
    program: Callable[[], Any],
    send: Callable[[Any, Recorder], None],
    cells: Iterable[Cell],
    recorder: Recorder,
) -> None:
    """Run a program in a fork, then send what it returns, or its reason in every cell."""
    with recorder.stage(name):
        try:
            result = in_fork(program, _FORK_LIMIT_S)
        except Exception as error:
            recorder.unfilled(cells, in_words(error))
            raise
        send(result, recorder)
