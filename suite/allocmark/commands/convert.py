"""``allocmark convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Device, Recording


def convert(
    file: Recording,
    out: Annotated[Path, typer.Argument(help="The trace to write, as in run.trace.gz.")],
    device: Device = None,
) -> None:
    """Write a recording as a trace of the suite: small, without addresses or lines of code."""
    from allocmark.recording.importers import exporting, reader

    recording = reader.read(file, device)
    exporting.write(out, recording)
    typer.echo(f"{out}: {len(recording.trace)} events of {recording.source}")
