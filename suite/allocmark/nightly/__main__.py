"""``python -m allocmark.nightly``: one night of one lane; ``nox -s nightly`` makes its environment.

Exit codes: 0 fine (or the first night), 1 a regression, 2 bad input or a step that failed, 3
where it was stopped (Ctrl-C, a full disk); with ``--exit-unclear`` that code where it stays
unclear.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from allocmark.system.command_line import run_command
from allocmark.system.errors import EXIT_FINE, EXIT_REGRESSION


def nightly(
    lane: Annotated[str, typer.Option(help="pinned, rolling, or a name of your own.")],
    filters: Annotated[
        list[str] | None,
        typer.Argument(help="After --: arguments of `allocmark run`; only that is measured."),
    ] = None,
    record: Annotated[Path, typer.Option(help="Holds all nights.")] = Path("nightly"),
    scratch: Path = Path("build/nightly"),
    profile: str = "quick",
    last: Annotated[int, typer.Option(min=1, help="Good nights it is held against.")] = 3,
    rerun: Annotated[int, typer.Option(min=0, help="Rounds for what is unclear.")] = 2,
    thresholds: Path | None = None,
    exit_unclear: Annotated[int, typer.Option(min=0, max=255)] = EXIT_FINE,
    exit_regression: Annotated[int, typer.Option(min=0, max=255)] = EXIT_REGRESSION,
) -> None:
    """Do a night, and print its summary."""
    if filters and "--" not in sys.argv:  # Else a word in the wrong place would narrow a night.
        raise typer.BadParameter("arguments of `allocmark run` stand after --")
    from allocmark.nightly.night import NightOptions, run_night

    options = NightOptions(
        record,
        scratch,
        lane,
        profile=profile,
        filters=filters or (),
        last=last,
        rounds=rerun,
        thresholds=thresholds,
    )
    outcome = run_night(options, typer.echo).outcome
    codes = {"regression": exit_regression, "unclear": exit_unclear}
    raise typer.Exit(codes.get(outcome or "", EXIT_FINE))


if __name__ == "__main__":
    raise SystemExit(run_command(nightly))
