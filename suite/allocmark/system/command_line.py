"""How every program of allocmark's begins and ends: one sentence for an error, one exit code.

Ctrl-C that nobody takes is an error like any other; a reader of its output that has gone is none,
and needs no word. A fault of allocmark's own never ends as what found a regression does.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from allocmark.system.errors import (
    EXIT_FINE,
    EXIT_UNCLEAR,
    AllocmarkError,
    ReaderGoneError,
    StoppedError,
    of_system,
    user_message,
)


@contextmanager
def _own_errors() -> Iterator[None]:
    """Keep Ctrl-C and a closed pipe from typer, which has exit codes of its own for them."""
    try:
        yield
    except KeyboardInterrupt:
        raise StoppedError from None
    except BrokenPipeError:
        raise ReaderGoneError from None


class _OwnErrors:
    def make_context(self, *arguments: Any, **options: Any) -> Any:
        with _own_errors():
            return super().make_context(*arguments, **options)  # type: ignore[misc]

    def invoke(self, ctx: Any) -> Any:
        with _own_errors():
            return super().invoke(ctx)  # type: ignore[misc]


class Command(_OwnErrors, TyperCommand):
    """The command of a program that has one."""


class Commands(_OwnErrors, TyperGroup):
    """The commands of a program that has several."""


def application(**settings: Any) -> typer.Typer:
    """Return a command line without commands yet."""
    settings = {"add_completion": False, "pretty_exceptions_enable": False, **settings}
    return typer.Typer(cls=Commands, **settings)


def run_command(command: Callable[..., None], **settings: Any) -> int:
    """Run a program that has one command; returns the exit code."""
    program = application()
    program.command(cls=Command, **settings)(command)
    return run(program)


def run(program: Callable[[], object]) -> int:
    """Run a program to its end, until Ctrl-C, or until nobody reads; returns the exit code."""
    _open_streams()
    try:
        try:
            program()
        finally:
            sys.stdout.flush()
    except SystemExit as ended:  # How typer ends.
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or EXIT_FINE
        with suppress(OSError):
            print(ended.code, file=sys.stderr)
        return EXIT_UNCLEAR
    except BrokenPipeError:
        # What is still buffered goes nowhere, else the interpreter complains at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ReaderGoneError.exit_code
    except KeyboardInterrupt:
        return _report(StoppedError())
    except AllocmarkError as error:
        return _report(error)
    except Exception as error:
        if isinstance(error, OSError) and (known := of_system(error)):
            return _report(known)
        with suppress(OSError):
            traceback.print_exc()
        return EXIT_UNCLEAR
    return EXIT_FINE


def _report(error: AllocmarkError) -> int:
    if not error.is_reported:
        with suppress(OSError):  # Nobody may be there to read it.
            print(user_message(error), file=sys.stderr)
    return error.exit_code


def _open_streams() -> None:
    """Open what the caller has closed (``>&-``), in order: no other file may get its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
