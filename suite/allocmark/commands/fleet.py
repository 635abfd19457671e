"""``allocmark fleet``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Thresholds


def fleet(
    folders: Annotated[
        list[Path], typer.Argument(help="Folders with runs of many machines, anywhere below them.")
    ],
    format: Annotated[str, typer.Option(help="text, md or json.")] = "text",
    thresholds: Thresholds = None,
) -> None:
    """Name the odd machine among equals. Exit code 1: there is one; 0: there is none."""
    from allocmark.fleet.searching import search
    from allocmark.report.fleet import FORMATS
    from allocmark.system.errors import EXIT_FINE, EXIT_REGRESSION, lookup

    write = lookup("format", format, FORMATS)
    found = search(folders, thresholds)
    typer.echo(write(found), nl=False)
    raise typer.Exit(EXIT_REGRESSION if any(kind.named for kind in found.kinds) else EXIT_FINE)
