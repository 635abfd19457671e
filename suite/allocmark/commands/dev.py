"""``allocmark dev``: what only developers run. Most of it lies in ``tools/``, outside the wheel."""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer

from allocmark.commands.options import Thresholds
from allocmark.system.command_line import application
from allocmark.system.errors import AllocmarkError

_TOOLS = "allocmark.tools"
_IN_THE_WHEEL = "build-shim"

app = application(no_args_is_help=True)

_Program = Annotated[
    list[str] | None, typer.Option("--program", help="One of the suite's (repeatable; all).")
]
_Steps = Annotated[int | None, typer.Option(help="Steps (default: the program's own).")]


@app.callback()
def dev(context: typer.Context) -> None:
    """What only developers of allocmark run."""
    command = context.invoked_subcommand
    if command != _IN_THE_WHEEL and find_spec(_TOOLS) is None:
        raise AllocmarkError(f"allocmark dev {command} is not installed: run it in a clone")


@app.command()
def power(
    runs: Annotated[list[str], typer.Argument(help="Results folders, or folders of them.")],
    drawn: Annotated[int, typer.Option(help="Draw so many runs from these.")] = 0,
    thresholds: Thresholds = None,
    seed: int = 1,
) -> None:
    """Say what the comparison finds, and what it imagines, among runs where nothing changed."""
    from allocmark.tools import power

    for part in power.simulations(runs, drawn, thresholds, seed):
        typer.echo(part)


@app.command()
def agreement(
    a: Annotated[Path, typer.Argument(help="A results folder.")],
    b: Annotated[Path, typer.Argument(help="The one of a second run on the same machine.")],
) -> None:
    """Say how far two runs in a row agree: exit code 1 where they do not."""
    from allocmark.tools import agreement

    found = agreement.compare(a, b)
    typer.echo(agreement.text(found))
    raise typer.Exit(found.exit_code)


@app.command()
def agreement_emulated(
    hardware: Annotated[Path, typer.Argument(help="Documents of a GPU.")],
    emulated: Annotated[Path, typer.Argument(help="Emulated documents.")],
    out: Annotated[Path, typer.Option(help="The page to write.")],
) -> None:
    """Write how far an emulated run agrees with hardware."""
    from allocmark.tools.agreement_emulated import write_page

    write_page(hardware, emulated, out)
    typer.echo(out)


@app.command()
def derive_profile(
    results: Annotated[Path, typer.Argument(help="The results folder.")],
    machine: Annotated[str, typer.Argument(help="A machine's name in it.")],
    out: Annotated[Path, typer.Option(help="The profile to write.")],
) -> None:
    """Write the emulated driver's profile of a GPU from what was measured on it."""
    from allocmark.tools.derive_profile import write

    write(results, machine, out)


@app.command()
def record_workloads(
    out: Annotated[Path, typer.Option(help="Folder for the files.")],
    program: _Program = None,
    setting: Annotated[
        list[str] | None,
        typer.Option(help="Run under this torch allocator, write its counters (repeatable)."),
    ] = None,
    steps: _Steps = None,
    device: Annotated[int, typer.Option(help="Number of the GPU.")] = 0,
    twice: Annotated[bool, typer.Option("--twice", help="Record twice and compare.")] = False,
    jobs: Annotated[int, typer.Option(help="Processes at a time.")] = 1,
) -> None:
    """Record the allocations of the suite's programs on this machine's GPU."""
    from allocmark.tools.record_workloads import record_all

    code = record_all(
        out,
        typer.echo,
        programs=program,
        settings=setting,
        steps=steps,
        device=device,
        twice=twice,
        jobs=jobs,
    )
    raise typer.Exit(code)


@app.command()
def replay_against_real(
    results: Annotated[Path, typer.Option(help="The results folder.")],
    program: Annotated[
        list[str] | None,
        typer.Option(help="One of examples/accuracy, or a script by its path (repeatable; all)."),
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option(help="One of torch's allocators (repeatable; five).")
    ] = None,
    recordings: Annotated[
        Path | None,
        typer.Option(help="A folder to keep the recordings in, instead of earlier ones."),
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=1, help="Plain runs under each setting (cudaMallocAsync: 1 more).")
    ] = 2,
    jobs: Annotated[
        int | None, typer.Option(help="Programs at a time (default: half of the cores, 8).")
    ] = None,
    limit: Annotated[
        float, typer.Option(min=1, help="How long one run of a program may take, seconds.")
    ] = 240,
) -> None:
    """Hold replays against real runs on this machine's GPU: peaks, and the smallest memory."""
    from allocmark.tools.accuracy.measuring import SETTINGS, AccuracyOptions
    from allocmark.tools.accuracy.record import measure_all

    options = AccuracyOptions(setting or SETTINGS, repeats, jobs, limit, recordings)
    measure_all(results, program, options, typer.echo)


@app.command()
def replay_accuracy(
    results: Annotated[Path, typer.Option(help="The results folder.")],
    page: Annotated[
        Path | None, typer.Option(help="The page to renew (default: print the tables).")
    ] = None,
) -> None:
    """Write what replay-against-real found as the tables of docs/replay.md."""
    from allocmark.tools.accuracy import docs_page

    if page is None:
        typer.echo(docs_page.section(results), nl=False)
    else:
        docs_page.renew(page, results)


@app.command()
def pool_accuracy(
    results: Annotated[Path, typer.Option(help="The results folder.")],
    recordings: Annotated[Path, typer.Option(help="A folder of the programs' recordings.")],
    page: Annotated[
        Path | None, typer.Option(help="The page to renew (default: print the table).")
    ] = None,
) -> None:
    """Hold the model of the driver's pool against the real runs of programs, without a GPU."""
    from allocmark.tools.accuracy import driver_pool_page

    programs = driver_pool_page.found(results, recordings)
    if page is None:
        typer.echo(driver_pool_page.section(programs), nl=False)
    else:
        driver_pool_page.renew(page, programs)


@app.command()
def picture(
    out: Annotated[Path, typer.Argument(help="The SVG to write.")],
    title: Annotated[str, typer.Option(help="The command, as the picture names it.")] = "",
) -> None:
    """Draw what comes by standard input as a terminal shows it, for the docs."""
    from allocmark.tools.picture import picture

    out.write_text(picture(sys.stdin.read(), title), encoding="utf-8")
    typer.echo(out)


@app.command()
def verdicts_of_versions(
    python: Annotated[
        list[Path], typer.Option(help="An interpreter with another version of torch (repeatable).")
    ],
    results: Annotated[Path, typer.Option(help="The results folder that gets the file.")],
) -> None:
    """Judge the statements under several versions of torch, on the emulated driver."""
    from allocmark.schema.versions import NAME
    from allocmark.tools.versions_verdicts import measure

    measure(python, results / NAME, typer.echo)


@app.command()
def build_shim(file: Annotated[Path, typer.Argument(help="The library to write.")]) -> None:
    """Build TensorFlow's shim, to be taken along to where TensorFlow came without its headers."""
    from allocmark.allocators.tensorflow_gpu import shim

    typer.echo(shim.write(file))
