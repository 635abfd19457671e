"""``allocmark emulate``, which is ``python -m allocmark.emulator``, too."""

from __future__ import annotations

from typing import Annotated

import typer

from allocmark.hook.rank_options import LocalWorldSize, RankNumber, WorldSize, wanted

COMMAND_FOLLOWS = {"ignore_unknown_options": True}
"""Settings of a command that runs another one: options not known here are the other's."""


def emulate(
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    gpu: Annotated[str | None, typer.Option(help="The profile of a GPU.")] = None,
    memory: Annotated[str | None, typer.Option(help="Its memory, as in 24GiB.")] = None,
    devices: Annotated[
        int | None, typer.Option(help="How many of them (default: 1, of a job all of a machine).")
    ] = None,
    times: Annotated[bool, typer.Option("--times", help="Calls take the profile's time.")] = False,
    world_size: WorldSize = None,
    rank: RankNumber = None,
    local_world_size: LocalWorldSize = None,
) -> None:
    """Run a command on the emulated driver: bytes and decisions are real, times are not."""
    from allocmark.emulator import launcher
    from allocmark.system.units import parse_bytes

    memory_bytes = parse_bytes(memory) if memory is not None else None
    variables = {}
    if job := wanted(command, world_size, rank, local_world_size, devices):
        variables, devices = job.variables(), devices or job.local_world_size
    status = launcher.emulate(command, gpu, memory_bytes, devices or 1, times, variables)
    raise typer.Exit(status)
