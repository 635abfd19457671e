"""The commands about recordings: words into calls, as in `allocmark.commands.app`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_FORMATS = ("table", "json")


def replay(
    file: Annotated[Path, typer.Argument(help="A torch snapshot, an RMM log or a trace.")],
    setting: Annotated[
        list[str] | None,
        typer.Option(help="An allocator, or a text as max_split_size_mb:128 (repeatable)."),
    ] = None,
    capacity: Annotated[
        str | None, typer.Option(help="Answer for one card: its usable bytes, as in 24GiB.")
    ] = None,
    outside: Annotated[
        str | None, typer.Option(help="What the process takes outside its allocator, as in 700MiB.")
    ] = None,
    device: Annotated[int | None, typer.Option(help="Device of a recording of several.")] = None,
    format: Annotated[str, typer.Option(help="table or json.")] = "table",
    page: Annotated[Path | None, typer.Option(help="Write a page with pictures here.")] = None,
    emulated: Annotated[
        bool, typer.Option("--emulated", help="On the emulated driver even where a GPU is.")
    ] = False,
) -> None:
    """Say which allocator setting a recorded run would have fitted under, and why."""
    from allocmark.replays.command import Asked, answer
    from allocmark.system.errors import UnknownNameError

    if format not in _FORMATS:
        raise UnknownNameError("format", format, list(_FORMATS))
    asked = Asked(file, setting or (), capacity, outside, device, emulated, page)
    raise typer.Exit(answer(asked, format, lambda text: typer.echo(text, nl=False)))


def record(
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    out: Annotated[
        Path | None,
        typer.Option(help="The snapshot's file, a new one (default: snapshot.pickle, or -2, …)."),
    ] = None,
    on_oom: Annotated[bool, typer.Option("--on-oom", help="Write at OOM only.")] = False,
    max_entries: Annotated[
        int | None, typer.Option(help="Entries to keep, the newest (default: a million).")
    ] = None,
    no_stacks: Annotated[
        bool, typer.Option("--no-stacks", help="Without the lines of code: cheaper.")
    ] = False,
) -> None:
    """Run a command with torch's memory history on; write a snapshot at OOM, exit or signal."""
    from allocmark.recording.record import MOST_ENTRIES, Options
    from allocmark.recording.record import record as start

    entries = MOST_ENTRIES if max_entries is None else max_entries
    options = Options(out, entries, not no_stacks, on_oom)
    raise typer.Exit(start(command, options))


def convert(
    file: Annotated[Path, typer.Argument(help="A torch snapshot, an RMM log or a trace.")],
    out: Annotated[Path, typer.Argument(help="The trace to write, as in run.trace.gz.")],
    device: Annotated[int | None, typer.Option(help="Device of a recording of several.")] = None,
) -> None:
    """Write a recording as a trace of the suite: small, without addresses or lines of code."""
    from allocmark.recording.importers import exporting, reader

    recording = reader.read(file, device)
    exporting.write(out, recording)
    typer.echo(f"{out}: {len(recording.trace)} events of {recording.source}")


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(context_settings={"ignore_unknown_options": True})(record)
    app.command()(replay)
    app.command()(convert)
