"""``allocmark history``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Results


def history(
    results: Results = None,
    out: Annotated[
        Path | None, typer.Option(help="A scratch folder (default: build/history beside them).")
    ] = None,
) -> None:
    """Write asv's site of all stacks in the order first run, with its own search for steps."""
    from allocmark.asv.history import build, publish
    from allocmark.machine.places import found_project, results_folder

    folder = results_folder(results)
    database = out or folder.parent / "build" / "history"
    for reason in build([folder], database, found_project()):
        typer.echo(f"left out: {reason}", err=True)
    typer.echo(publish(database))
