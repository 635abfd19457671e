"""``python -m allocmark.publish``: builds the site; ``nox -s publish`` installs what it needs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.system.command_line import run_command


def publish(
    roots: Annotated[
        list[Path] | None, typer.Argument(help="Results folders, or folders of them.")
    ] = None,
    project: Annotated[Path, typer.Option(help="A clone of allocmark.")] = Path(),
    out: Path = Path("build/site"),
    scratch: Path = Path("build/publish"),
) -> None:
    """Build the site, and say where."""
    from allocmark.publish.whole_site import DEFAULT_ROOTS, build

    chosen = roots or [root for root in DEFAULT_ROOTS if root.is_dir()]
    for reason in build(chosen, project.absolute(), out, scratch):
        typer.echo(f"left out: {reason}", err=True)
    typer.echo(out / "index.html")


if __name__ == "__main__":
    raise SystemExit(run_command(publish))
