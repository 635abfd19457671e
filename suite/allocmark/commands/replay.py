"""``allocmark replay``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Device, Recordings


def replay(
    files: Recordings,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="An allocator, or a text as max_split_size_mb:128 (repeatable)."),
    ] = None,
    capacity: Annotated[
        str | None, typer.Option(help="Answer for one card: its usable bytes, as in 24GiB.")
    ] = None,
    outside: Annotated[
        str | None, typer.Option(help="What the process takes outside its allocator, as in 700MiB.")
    ] = None,
    device: Device = None,
    format: Annotated[str, typer.Option(help="table or json; of a job md, too.")] = "table",
    page: Annotated[Path | None, typer.Option(help="Write a page with pictures here.")] = None,
    perfetto: Annotated[
        Path | None, typer.Option(help="Write memory over the events here, for ui.perfetto.dev.")
    ] = None,
    emulated: Annotated[
        bool, typer.Option("--emulated", help="On the emulated driver even where a GPU is.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="All notes; without it 30 lines at most.")
    ] = False,
) -> None:
    """Say which allocator setting a recorded run would have fitted under, and why."""
    from allocmark.replays.command import FORMATS, ReplayRequest, answer
    from allocmark.replays.jobs import job_command
    from allocmark.system.errors import lookup

    def show(text: str) -> None:
        typer.echo(text, nl=False)

    request = ReplayRequest(
        files[0],
        settings=setting or (),
        capacity=capacity,
        outside=outside,
        device=device,
        emulated=emulated,
        page=page,
        perfetto=perfetto,
        verbose=verbose,
    )
    if job_command.is_job(files):
        raise typer.Exit(job_command.answer(files, request, format, show))
    write = lookup("format", format, FORMATS)
    raise typer.Exit(answer(request, write, show))
