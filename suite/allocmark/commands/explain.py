"""``allocmark explain``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Device, Results


def explain(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Recordings, of a job all ranks', or its folder.")
    ] = None,
    pid: Annotated[int | None, typer.Option(help="A running process of yours.")] = None,
    results: Results = None,
    device: Device = None,
    format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Say what a running process, or a recorded one, does with GPU memory, and what holds it."""
    from allocmark.explain.explain import explain as explain_process
    from allocmark.explain.formats import FORMATS
    from allocmark.machine.places import results_folders
    from allocmark.replays.jobs import job_command
    from allocmark.system.errors import AllocmarkError, lookup

    if (pid is None) == (not files):
        raise AllocmarkError("name a running process (--pid) or the files of recordings")
    if files:
        typer.echo(job_command.explain(files, device, format), nl=False)
        return
    assert pid is not None
    write = lookup("format", format, FORMATS)
    found = explain_process(pid, results_folders(results), must_be=results is not None)
    typer.echo(write(found), nl=False)
