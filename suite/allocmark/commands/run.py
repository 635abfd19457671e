"""``allocmark run``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Results
from allocmark.system.errors import AllocmarkError


def run(
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples; base allocators.")] = False,
    profile: Annotated[str | None, typer.Option(help="full or quick.")] = None,
    experiment: Annotated[
        list[str] | None, typer.Option(help="Measure only this experiment (repeatable).")
    ] = None,
    allocator: Annotated[
        list[str] | None,
        typer.Option(
            "--allocator", "--subject", help="Measure only this allocator or subject (repeatable)."
        ),
    ] = None,
    allocator_file: Annotated[
        Path | None, typer.Option(help="A Python file with ALLOCATORS of your own.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Measure again what a cut-off run has finished.")
    ] = False,
    results: Results = None,
    verbose: Annotated[
        bool, typer.Option("--verbose", help="A line for each document, and asv's tables.")
    ] = False,
) -> None:
    """Measure, and write the report. Without a filter: everything, tracked by asv."""
    from allocmark.commands import run_command

    if quick and profile is not None:
        raise AllocmarkError(f"--quick and --profile {profile} ask for two profiles: give one")
    chosen = profile if profile is not None else "quick" if quick else "full"
    options = run_command.RunOptions(
        chosen, experiment or (), allocator or (), allocator_file, results, fresh, verbose
    )
    run_command.run(options)
