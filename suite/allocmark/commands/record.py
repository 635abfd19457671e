"""``allocmark record``."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from allocmark.hook.rank_options import LocalWorldSize, RankNumber, Ranks, WorldSize, wanted


def record(
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The snapshot's file, a new one (default: snapshot.pickle, or -2, …)."),
    ] = None,
    on_oom: Annotated[bool, typer.Option("--on-oom", help="Write at OOM only.")] = False,
    max_entries: Annotated[
        int | None, typer.Option(help="Entries to keep, the newest (default: a million).")
    ] = None,
    no_stacks: Annotated[
        bool, typer.Option("--no-stacks", help="Without the lines of code: cheaper.")
    ] = False,
    world_size: WorldSize = None,
    rank: RankNumber = None,
    ranks: Ranks = None,
    local_world_size: LocalWorldSize = None,
) -> None:
    """Run a command with torch's memory history on; write a snapshot at OOM, exit or signal."""
    from allocmark.cuda.driver import visible_devices
    from allocmark.emulator.launcher import emulation, made_for
    from allocmark.recording import job as jobs
    from allocmark.recording.record import DEFAULT, MOST_ENTRIES, RecordOptions
    from allocmark.recording.record import record as record_command
    from allocmark.system.errors import AllocmarkError

    entries = MOST_ENTRIES if max_entries is None else max_entries
    options = RecordOptions(out, max_entries=entries, stacks=not no_stacks, on_oom=on_oom)
    devices = (visible_devices() or None) if world_size else None  # None: they are emulated
    if ranks is not None:
        if world_size is None or rank is not None:
            raise AllocmarkError("--ranks needs --world-size, and no --rank beside it")
        wanted(command, world_size, 0, local_world_size, devices)
        of_all = ["--on-oom"] * on_oom + ["--no-stacks"] * no_stacks
        several = jobs.Job(
            command,
            world_size,
            local_world_size,
            options=[*of_all, "--max-entries", str(entries)],
            out=(out or DEFAULT).absolute(),
            at_a_time=jobs.at_a_time(is_emulated=devices is None),
        )
        raise typer.Exit(jobs.record_job(several, jobs.chosen(ranks, world_size)))
    job = wanted(command, world_size, rank, local_world_size, devices)
    with contextlib.ExitStack() as stack:
        variables = job.variables() if job else {}
        if job and devices is None:
            variables |= stack.enter_context(emulation(devices=job.local_world_size))
        raise typer.Exit(record_command(command, options, variables, made_for(variables)))
