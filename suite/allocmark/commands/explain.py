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
    all: Annotated[bool, typer.Option("--all", help="All processes; with --openmetrics.")] = False,
    openmetrics: Annotated[
        bool, typer.Option("--openmetrics", help="Print metrics for Prometheus.")
    ] = False,
    out: Annotated[Path | None, typer.Option(help="Write the metrics into this file.")] = None,
    listen: Annotated[
        str | None, typer.Option(help="Serve the metrics at this address, as 127.0.0.1:9400.")
    ] = None,
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

    if (pid is not None) + bool(files) + all != 1:
        raise AllocmarkError(
            "name a running process (--pid), the files of recordings, or --all --openmetrics"
        )
    if all != openmetrics or ((out or listen) and not all) or (out and listen):
        raise AllocmarkError(
            "--all and --openmetrics stand together; --out or --listen says where the metrics go"
        )
    if files:
        typer.echo(job_command.explain(files, device, format), nl=False)
        return
    folders = results_folders(results)
    if pid is not None:
        write = lookup("format", format, FORMATS)
        found = explain_process(pid, folders, must_be=results is not None)
        typer.echo(write(found), nl=False)
        return
    from allocmark.explain import metrics
    from allocmark.explain.every_process import Machine

    machine = Machine(folders, must_be=results is not None)
    if listen is not None:
        metrics.serve(listen, machine)
    elif out is not None:
        metrics.write(out, machine)
    else:
        typer.echo(metrics.text(machine), nl=False)
