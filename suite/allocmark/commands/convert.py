"""``allocmark convert``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Device


def convert(
    file: Annotated[
        Path,
        typer.Argument(help="A torch snapshot, an RMM log, a trace, or a results folder."),
    ],
    out: Annotated[
        Path,
        typer.Argument(help="The file to write: run.trace.gz; of results figures.csv or .parquet."),
    ],
    device: Device = None,
) -> None:
    """Write a recording as a small trace without addresses or code, or results as one table."""
    if file.is_dir():
        from allocmark.store import table_file

        store = table_file.write(file, out)
        typer.echo(f"{out}: {len(store.figures)} figures of {len(store.sources)} documents")
        for item in store.left_out:
            typer.echo(f"left out: {item.path}: {item.reason}", err=True)
    else:
        from allocmark.recording.importers import exporting, reader

        recording = reader.read(file, device)
        exporting.write(out, recording)
        typer.echo(f"{out}: {len(recording.trace)} events of {recording.source}")
