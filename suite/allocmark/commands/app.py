"""The command line: words into calls, errors into one sentence and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from allocmark import __version__
from allocmark.commands import replay
from allocmark.system.errors import AllocmarkError, ReaderGoneError, StoppedError, of_system
from allocmark.system.sentences import sentence


class _Commands(TyperGroup):
    """The commands; Ctrl-C and a closed pipe that none of them takes are errors as all are."""

    def make_context(self, *words: Any, **more: Any) -> Any:
        with _from_outside():
            return super().make_context(*words, **more)

    def invoke(self, ctx: Any) -> Any:
        with _from_outside():
            return super().invoke(ctx)


@contextmanager
def _from_outside() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError from None
    except BrokenPipeError:
        raise ReaderGoneError from None


app = typer.Typer(
    cls=_Commands,
    name="allocmark",
    help="How GPU memory is really allocated, measured.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Results = Annotated[
    Path | None,
    typer.Option(
        help="The results folder (default: results of the project; on the emulated driver its "
        "build/emulated/results)."
    ),
]


def main() -> int:
    """Run the command line; returns the exit code."""
    try:
        app()
    except AllocmarkError as error:
        if not error.told:
            print(sentence(error), file=sys.stderr)
        return error.exit_code
    except OSError as error:
        told = of_system(error)
        if told is None:
            raise
        print(sentence(told), file=sys.stderr)
        return told.exit_code
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
    from allocmark.measure.run import Options
    from allocmark.measure.run import run as start

    if quick and profile is not None:
        raise AllocmarkError(f"--quick and --profile {profile} ask for two profiles: give one")
    chosen = profile if profile is not None else "quick" if quick else "full"
    options = Options(chosen, experiment or (), allocator or (), allocator_file, results, fresh)
    typer.echo(start(options))


@app.command()
def doctor(results: Results = None) -> None:
    """Say whether figures from this machine can be trusted, and what will be left out."""
    from allocmark.machine.places import results_folder
    from allocmark.measure.doctor import examine, exit_code

    findings = examine(results_folder(results))
    for finding in findings:
        left_out = f" [left out: {', '.join(finding.skipped)}]" if finding.skipped else ""
        typer.echo(f"{finding.level:8}{finding.check}: {finding.sentence}{left_out}")
    raise typer.Exit(exit_code(findings))


@app.command()
def explain(
    pid: Annotated[int, typer.Option(help="A running process of yours.")],
    results: Results = None,
    format: Annotated[str, typer.Option(help="text or json.")] = "text",
) -> None:
    """Say what a running process does with GPU memory, by the diagnostic rules that hold."""
    from allocmark.explain.explain import explain as explained
    from allocmark.explain.formats import FORMATS
    from allocmark.machine.places import results_folders
    from allocmark.system.errors import UnknownNameError

    if format not in FORMATS:
        raise UnknownNameError("format", format, list(FORMATS))
    answer = explained(pid, results_folders(results), must_be=results is not None)
    typer.echo(FORMATS[format](answer), nl=False)


@app.command()
def report(
    results: Results = None,
    out: Annotated[
        Path | None,
        typer.Option(help="The report folder (default: beside the results, and named after them)."),
    ] = None,
    format: Annotated[
        str | None, typer.Option(help="md: print the tables as Markdown instead.")
    ] = None,
    lang: Annotated[
        str, typer.Option(help="en, or zh: Markdown and a page that opens in Chinese, too.")
    ] = "en",
) -> None:
    """Write the report of a results folder, or print its tables."""
    from allocmark.machine.places import reports_beside, results_folder, straight
    from allocmark.report import FORMATS, render_markdown, write_report
    from allocmark.system.errors import UnknownNameError

    if format is not None and format not in FORMATS:
        raise UnknownNameError("format", format, list(FORMATS))
    folder = results_folder(results)
    if format and out is None:
        typer.echo(render_markdown(folder, lang))
    else:
        tell = partial(typer.echo, err=True)
        written = write_report(folder, straight(out or reports_beside(folder)), lang, tell)
        typer.echo(written)


@app.command()
def compare(
    a: Annotated[str, typer.Argument(help="A stack of the results, a result file or a folder.")],
    b: Annotated[str, typer.Argument(help="The one that is looked at.")],
    results: Results = None,
    format: Annotated[str, typer.Option(help="text, md, csv or json.")] = "text",
    thresholds: Annotated[
        Path | None, typer.Option(help="Rules of your own, before the suite's.")
    ] = None,
) -> None:
    """Say of every figure whether B is the same as A, better, worse, or unclear."""
    from allocmark.compare.comparing import compare as compared
    from allocmark.compare.comparing import no_garbage
    from allocmark.machine.places import results_folder
    from allocmark.report.comparison_text import FORMATS
    from allocmark.system.errors import UnknownNameError

    if format not in FORMATS:
        raise UnknownNameError("format", format, list(FORMATS))
    with no_garbage():
        found = compared(a, b, results_folder(results), thresholds)
        typer.echo(FORMATS[format](found), nl=False)


@app.command()
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
    exit_unclear: Annotated[int, typer.Option(help="The exit code if it stays unclear.")] = 0,
    format: Annotated[str, typer.Option(help="text, md, csv or json.")] = "text",
    thresholds: Annotated[
        Path | None, typer.Option(help="Rules of your own, before the suite's.")
    ] = None,
) -> None:
    """Hold the newest run against the last ones: exit code 1 if a figure is worse.

    A first run has nothing to be held against: it passes, with a sentence that says so.
    """
    from allocmark.commands.gate import gated
    from allocmark.machine.places import results_folder

    folder = results_folder(results)
    found = gated(folder, against or (), last, rerun, thresholds, format)
    typer.echo(found.text, nl=False)
    for reason in found.not_held:
        typer.echo(f"not held against anything: {reason}", err=True)
    raise typer.Exit(found.exit_code(exit_unclear))


@app.command()
def history(
    results: Results = None,
    out: Annotated[
        Path | None, typer.Option(help="A scratch folder (default: build/history beside them).")
    ] = None,
) -> None:
    """Write asv's site of all stacks in the order first run, with its own search for steps."""
    from allocmark.asv.history import build, publish
    from allocmark.machine.places import results_folder

    folder = results_folder(results)
    database = out or folder.parent / "build" / "history"
    for reason in build([folder], database):
        typer.echo(f"left out: {reason}", err=True)
    typer.echo(publish(database))


@app.command(context_settings={"ignore_unknown_options": True})
def emulate(
    command: Annotated[list[str], typer.Argument(help="The command, after --.")],
    gpu: Annotated[str | None, typer.Option(help="The profile of a GPU.")] = None,
    memory: Annotated[str | None, typer.Option(help="Its memory, as in 24GiB.")] = None,
    devices: Annotated[int, typer.Option(help="How many of them.")] = 1,
    times: Annotated[bool, typer.Option("--times", help="Calls take the profile's time.")] = False,
) -> None:
    """Run a command on the emulated driver: bytes and decisions are real, times are not."""
    from allocmark.emulator.launcher import emulate as start
    from allocmark.system.units import parse_bytes

    memory_bytes = parse_bytes(memory) if memory is not None else None
    raise typer.Exit(start(command, gpu, memory_bytes, devices, times))


@app.command(name="list")
def show_names() -> None:
    """Name the experiments with the profiles that have them, the allocators and the workloads."""
    from allocmark.allocators import registry
    from allocmark.experiments import catalog as experiments
    from allocmark.workloads import catalog

    groups = {
        "experiments": [
            f"{name} ({', '.join(experiments.profiles_of(name))})" for name in experiments.NAMES
        ],
        "allocators": list(registry()),
        "workloads": list(catalog.names()),
    }
    for title, names in groups.items():
        typer.echo(f"{title}:\n  " + "\n  ".join(names))


replay.register(app)
