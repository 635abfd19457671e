"""``allocmark report``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Results


def report(
    results: Results = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The report folder (default: beside the results, and named after them)."),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="md: print the tables as Markdown instead.")
    ] = None,
    lang: Annotated[
        str, typer.Option(help="en, or zh: Markdown and a page that opens in Chinese, too.")
    ] = "en",
) -> None:
    """Write the report of a results folder, or print its tables.

    Standard output has the path of the page alone, beside it stands what the results say.
    """
    from allocmark.commands.run_summary import findings, say
    from allocmark.machine.places import reports_beside, results_folder, straight
    from allocmark.report import FORMATS, render_markdown, write_pages
    from allocmark.system.errors import UnknownNameError

    if format is not None and format not in FORMATS:
        raise UnknownNameError("format", format, list(FORMATS))
    folder = results_folder(results)
    if format and out is None:
        typer.echo(render_markdown(folder, lang))
    else:
        left_out: list[str] = []
        place = straight(out or reports_beside(folder))
        page, front = write_pages(folder, place, lang, left_out.append)
        say([*findings(front), *left_out, f"report: {page.as_uri()}"])
        typer.echo(page)
