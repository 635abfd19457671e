"""The options by which a command runs a program as one rank of a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from allocmark.hook import rank
from allocmark.hook.rank import Rank
from allocmark.system.errors import AllocmarkError

WorldSize = Annotated[
    int | None, typer.Option(help="Run the program as one rank of a job of so many, alone.")
]
RankNumber = Annotated[int | None, typer.Option("--rank", help="Which rank of --world-size.")]
Ranks = Annotated[
    str | None,
    typer.Option(help="Several ranks, each alone: all, distinct, or numbers as in 0,37,500-511."),
]
LocalWorldSize = Annotated[
    int | None, typer.Option(help="Ranks on one machine (default: 8, or what divides the job).")
]


def wanted(
    command: Sequence[str],
    world_size: int | None,
    number: int | None,
    local_world_size: int | None,
    devices: int | None,
) -> Rank | None:
    """Return the rank that a command is to be run as, None where it is to be run as it is.

    Raises `AllocmarkError` as `rank.of` and `rank.check_command` do.
    """
    if world_size is None:
        if number is None and local_world_size is None:
            return None
        raise AllocmarkError("--rank and --local-world-size need --world-size: of how many?")
    if number is None:
        raise AllocmarkError(f"--world-size {world_size} needs --rank: which of them?")
    rank.check_command(command)
    return rank.of(world_size, number, local_world_size, devices)
