"""``allocmark diff``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def diff(
    a: Annotated[Path, typer.Argument(help="A recording, or the folder of a job's.")],
    b: Annotated[Path, typer.Argument(help="The one that is looked at.")],
    setting: Annotated[
        str | None, typer.Option(help="What the job runs under (default: as B was recorded).")
    ] = None,
    limit: Annotated[
        str | None, typer.Option(help="Fail where the smallest card grows by more: 1% or 256MiB.")
    ] = None,
    outside: Annotated[
        str | None, typer.Option(help="What a process takes outside its allocator, as in 700MiB.")
    ] = None,
    format: Annotated[str, typer.Option(help="text, md or json.")] = "text",
) -> None:
    """Say how B's memory differs from A's: peaks, smallest card, and which lines hold more."""
    from allocmark.replays.diff.diff_text import FORMATS
    from allocmark.replays.diff.job_diff import compare
    from allocmark.system.errors import lookup

    write = lookup("format", format, FORMATS)
    found = compare(a, b, setting, limit, outside)
    typer.echo(write(found), nl=False)
    raise typer.Exit(found.exit_code)
