"""The command line: one file of this folder for each command, each only words into a call."""

from __future__ import annotations

from typing import Annotated

import typer

from allocmark import __version__
from allocmark.commands.check import check
from allocmark.commands.compare import compare
from allocmark.commands.convert import convert
from allocmark.commands.dev import app as dev
from allocmark.commands.diff import diff
from allocmark.commands.doctor import doctor
from allocmark.commands.explain import explain
from allocmark.commands.fleet import fleet
from allocmark.commands.gate import gate
from allocmark.commands.history import history
from allocmark.commands.list import show_names
from allocmark.commands.record import record
from allocmark.commands.replay import replay
from allocmark.commands.report import report
from allocmark.commands.run import run
from allocmark.emulator.command import COMMAND_FOLLOWS, emulate
from allocmark.system import command_line

ABOUT = (
    "Say why a job ran out of CUDA memory and which allocator setting would have fitted, "
    "and measure the allocators of PyTorch, TensorFlow and CUDA."
)

app = command_line.application(name="allocmark", help=ABOUT, no_args_is_help=True)


def _version(is_wanted: bool) -> None:
    if is_wanted:
        typer.echo(f"allocmark {__version__}")
        raise typer.Exit


@app.callback(help=ABOUT)
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    """Take the options that come before a command."""


for command in (run, doctor, check, explain, report, compare, fleet, gate, history):
    app.command()(command)
app.command(context_settings=COMMAND_FOLLOWS)(emulate)
app.command(name="list")(show_names)
app.command(context_settings=COMMAND_FOLLOWS)(record)
app.command()(replay)
app.command()(diff)
app.command()(convert)
app.add_typer(dev, name="dev")
