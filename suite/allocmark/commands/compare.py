"""``allocmark compare``."""

from __future__ import annotations

from typing import Annotated

import typer

from allocmark.commands.options import Results, Thresholds


def compare(
    a: Annotated[str, typer.Argument(help="A stack of the results, a result file or a folder.")],
    b: Annotated[str, typer.Argument(help="The one that is looked at.")],
    results: Results = None,
    format: Annotated[str, typer.Option(help="text, md, csv or json.")] = "text",
    thresholds: Thresholds = None,
) -> None:
    """Say of every figure whether B is the same as A, better, worse, or unclear."""
    from allocmark.compare import comparing
    from allocmark.machine.places import results_folder
    from allocmark.report.comparison_text import FORMATS
    from allocmark.system.errors import lookup
    from allocmark.system.garbage import no_garbage_collection

    write = lookup("format", format, FORMATS)
    with no_garbage_collection():
        found = comparing.compare(a, b, results_folder(results), thresholds)
        typer.echo(write(found), nl=False)
