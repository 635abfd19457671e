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
    page: Annotated[Path | None, typer.Option(help="Write a page with strips, too.")] = None,
    thresholds: Thresholds = None,
) -> None:
    """Name the odd machine among equals. Exit code 1: there is one; 0: there is none."""
    from allocmark.fleet.searching import search
    from allocmark.report.fleet import FORMATS
    from allocmark.system.errors import EXIT_FINE, EXIT_REGRESSION, lookup

    write = lookup("format", format, FORMATS)
    found = search(folders, thresholds)
    if page is not None:
        from allocmark.report.fleet_page import render
        from allocmark.schema.documents import write_whole

        write_whole(page, render(found).encode())
    typer.echo(write(found), nl=False)
    raise typer.Exit(EXIT_REGRESSION if any(kind.named for kind in found.kinds) else EXIT_FINE)
