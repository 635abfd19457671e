"""The command line: words into calls, errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from allocmark import __version__
from allocmark.errors import AllocmarkError

app = typer.Typer(
    name="allocmark",
    help="How GPU memory is really allocated, measured.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Results = Annotated[
    Path | None, typer.Option(help="The results folder (default: results of the project).")
]


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        app()
    except AllocmarkError as error:
        print(f"allocmark: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"allocmark {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """How GPU memory is really allocated, measured."""


@app.command()
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
) -> None:
    """Measure, and write the report. Without a filter: everything, tracked by asv."""
    from allocmark.run import Options
    from allocmark.run import run as start

    chosen = profile or ("quick" if quick else "full")
    options = Options(
        chosen, experiment or (), allocator or (), allocator_file, results, fresh
    )
    typer.echo(start(options))


@app.command(name="list")
def show_names() -> None:
    """Name the experiments, allocators and workloads."""
    from allocmark.allocators import registry
    from allocmark.probes import experiments
    from allocmark.workloads import catalog

    groups = {
        "experiments": list(experiments.NAMES),
        "allocators": list(registry()),
        "workloads": list(catalog.names()),
    }
    for title, names in groups.items():
        typer.echo(f"{title}:\n  " + "\n  ".join(names))
