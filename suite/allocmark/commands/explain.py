"""``allocmark explain``."""

from __future__ import annotations

from typing import Annotated

import typer

from allocmark.commands.options import Results


def explain(
    pid: Annotated[int, typer.Option(help="A running process of yours.")],
    results: Results = None,
    format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Say what a running process does with GPU memory, by the diagnostic rules that hold."""
    from allocmark.explain.explain import explain as explain_process
    from allocmark.explain.formats import FORMATS
    from allocmark.machine.places import results_folders
    from allocmark.system.errors import lookup

    write = lookup("format", format, FORMATS)
    found = explain_process(pid, results_folders(results), must_be=results is not None)
    typer.echo(write(found), nl=False)
