"""``allocmark gate``."""

from __future__ import annotations

from typing import Annotated

import typer

from allocmark.commands.options import Results, Thresholds


def gate(
    results: Results = None,
    against: Annotated[
        list[str] | None, typer.Option(help="A stack or folder to hold it against (repeatable).")
    ] = None,
    last: Annotated[
        int, typer.Option(min=1, help="So many of the runs before it, good or bad.")
    ] = 3,
    rerun: Annotated[
        int, typer.Option(min=0, help="Measure what is unclear again, up to so many times.")
    ] = 0,
    exit_unclear: Annotated[
        int, typer.Option(min=0, max=255, help="The exit code if it stays unclear.")
    ] = 0,
    format: Annotated[str, typer.Option(help="text, md, csv or json.")] = "text",
    thresholds: Thresholds = None,
) -> None:
    """Hold the newest run against the last ones: exit code 1 if a figure is worse.

    A first run has nothing to be held against: it passes, with a sentence that says so.
    """
    from allocmark.gate.newest_run import gate_newest_run
    from allocmark.machine.places import results_folder

    found = gate_newest_run(
        results_folder(results),
        against=against or (),
        last=last,
        rounds=rerun,
        thresholds=thresholds,
        format=format,
    )
    typer.echo(found.text, nl=False)
    for reason in found.not_held:
        typer.echo(f"not held against anything: {reason}", err=True)
    raise typer.Exit(found.exit_code(exit_unclear))
