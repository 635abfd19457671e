"""The commands of ``start.py``: set up, then hand over to the environment's interpreter."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from starter import lanes
from starter.environment import Environment, environment, read_note
from starter.errors import StartError
from starter.installing import complete, missing
from starter.interpreter import Framework, frameworks, site_folders
from starter.places import (
    BOTH_VENV,
    BYTECODE,
    EMULATED_RESULTS,
    ROOT,
    SUITE,
    TENSORFLOW_VENV,
    VENV,
)

EXIT_START = 2
EXIT_STOPPED = 3  # As each command of allocmark ends by Ctrl-C.
EXIT_UNREAD = 141  # As they end where the reader of their output has gone.
_NO_DRIVER = 3
_TOO_NEW_FOR_TENSORFLOW = (3, 14)
_USAGE = """usage: python3 suite/start.py COMMAND [ARGUMENTS]

  run   set up what is missing, measure, and write the report
        (arguments: those of `allocmark run`, such as --quick; see run --help;
        --tensorflow adds TensorFlow in an environment of its own, and measures it too)
  test  set up what is missing, and run the tests (arguments: those of pytest;
        --tensorflow adds TensorFlow for the tests that need it)
  lint  set up what is missing, and run ruff and mypy
  night LANE
        set up what the lane measures with, and do a night (docs/nightly.md)
"""
_GROUPS = {
    "run": ("core", "report"),
    "test": ("core", "report", "site", "test"),
    "lint": ("core", "report", "site", "test", "dev"),
}
GIB = 1 << 30
# Gigabytes to download and on disk, seen on Linux x86-64 with Python 3.11; in both READMEs, too.
_SIZES = {
    "core": (0.2, 0.7),
    "torch": (2.8, 4.9),
    "tensorflow": (0.7, 2.1),
    "tensorflow-cuda": (3.5, 6.5),
}
_NIGHT = "night"
_TENSORFLOW = "--tensorflow"
_TENSORFLOW_PYTHON = "ALLOCMARK_PYTHON_TENSORFLOW"
_UTF8 = "PYTHONUTF8"
_NO_BYTECODE, _BYTECODE = "PYTHONDONTWRITEBYTECODE", "PYTHONPYCACHEPREFIX"


def main(arguments: Sequence[str]) -> int:
    """Carry out one command; returns the exit status, also where nobody reads what it says."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:  # Closed by the caller: in order, each gets its number.
            setattr(sys, name, Path(os.devnull).open(mode, encoding="utf-8"))  # noqa: SIM115
    try:
        try:
            return _carried_out(arguments)
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_UNREAD


def _carried_out(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] not in (*_GROUPS, _NIGHT):
        wanted_help = bool(arguments) and arguments[0] in ("-h", "--help")
        print(_USAGE, end="", file=sys.stdout if wanted_help else sys.stderr)
        return 0 if wanted_help else EXIT_START
    command, rest = arguments[0], list(arguments[1:])
    os.environ[_UTF8] = "1"  # The environment's Pythons read and write text alike in each locale.
    try:
        _from_outside(arguments)
        _check_machine(command)
        if command == _NIGHT:
            return lanes.night(rest)
        ready = set_up(command)
        if os.environ.pop(_NO_BYTECODE, None):
            # Else each of hundreds of processes compiles its framework anew, seconds of each.
            os.environ.setdefault(_BYTECODE, str(BYTECODE))
        return _COMMANDS[command](ready, rest)
    except StartError as error:
        print(f"start.py: {error}", file=sys.stderr)
        return EXIT_START
    except BrokenPipeError:
        raise
    except OSError as error:  # As of another user's clone.
        what = f"{error.filename} cannot be used" if error.filename else "this clone cannot be used"
        print(
            f"start.py: {what} ({error.strerror or error}): use a clone of your own, in a folder "
            "that you may write to and start programs from",
            file=sys.stderr,
        )
        return EXIT_START
    except KeyboardInterrupt:
        print("start.py: stopped; starting it again goes on from here", file=sys.stderr)
        return EXIT_STOPPED


def set_up(command: str) -> Environment:
    """Return the environment with everything the command needs; raises `StartError`."""
    found = frameworks()
    below = site_folders() if found else []
    env = environment(below, [framework.name for framework in found])
    groups = list(_GROUPS[command])
    has_torch = any(framework.name == "torch" for framework in found)
    if command != "lint" and (not found or (command == "test" and not has_torch)):
        groups.append("torch")
    if env.is_ready(groups):
        return env
    _tell_frameworks(found)
    env.prepare()
    _complete(env, groups)
    return env


def add_tensorflow(env: Environment) -> Environment | None:
    """Return an environment with TensorFlow alone, None where the starting Python has it.

    On a GPU it needs other CUDA libraries than torch, which must not lie beside torch's. Raises
    `StartError`.
    """
    if _has_tensorflow():
        return None
    _refuse_without_tensorflow()
    groups = ["core", "tensorflow" if _needs_emulation(env) else "tensorflow-cuda"]
    own = environment([], ["tensorflow"], TENSORFLOW_VENV)
    if not own.is_ready(groups):
        own.prepare()
        _complete(own, groups)
    return own


def beside_torch(env: Environment) -> Environment:
    """Return an environment over the project's that has TensorFlow too, for tests.

    They run on the emulated driver, where both may share a process. Raises `StartError`.
    """
    if _has_tensorflow():
        return env
    _refuse_without_tensorflow()
    groups = [*_GROUPS["test"], "tensorflow"]
    below = [str(env.packages), *env.below]
    both = environment(below, ["torch", "tensorflow"], BOTH_VENV)
    if not both.is_ready(groups):
        both.prepare()
        _complete(both, groups)
    return both


def _refuse_without_tensorflow() -> None:
    if sys.version_info >= _TOO_NEW_FOR_TENSORFLOW:
        raise StartError(
            "no TensorFlow is released for this Python: start with Python 3.11 to 3.13, or let "
            f"{_TENSORFLOW_PYTHON} name a Python that has one"
        )


def _has_tensorflow() -> bool:
    return any(framework.name == "tensorflow" for framework in frameworks())


def _complete(env: Environment, groups: Sequence[str]) -> None:
    lacking = missing(env, groups)
    if lacking:
        # A group counts where what it is named for is lacking; the core where anything is.
        of_groups = [name for name in groups if name == "core" or name.split("-")[0] in lacking]
        _check_room(env.folder, of_groups)
        complete(env, groups, lacking)
    env.remember(groups)


def _from_outside(arguments: Sequence[str]) -> None:
    """Start again with the interpreter that made the environment, when started from inside it."""
    if Path(sys.prefix).resolve() != VENV.resolve():
        return
    maker = read_note(VENV).started_with
    if not os.access(maker, os.X_OK) or Path(maker).is_relative_to(VENV):
        raise StartError(f"started from inside {VENV}: start it with the Python outside of it")
    os.execv(maker, [maker, str(SUITE / "start.py"), *arguments])


def _check_machine(command: str) -> None:
    if not sys.platform.startswith("linux"):
        raise StartError("allocmark measures on Linux only: use a Linux machine or container")
    if shutil.which("git") is None:
        raise StartError("git was not found: install it (asv keeps results by commit)")
    if not (ROOT / ".git").exists():
        raise StartError(f"{ROOT} is no git clone: clone the project instead of unpacking it")
    named = os.environ.get("CC", "").split()[:1]
    has_compiler = any(map(shutil.which, [*named, "cc", "gcc", "clang"])) or find_spec("ziglang")
    if command != "lint" and not has_compiler:
        raise StartError(
            "no C compiler was found (the timing loops and the emulated driver are built here): "
            "install gcc or clang (on Debian and Ubuntu: apt install gcc g++)"
        )


def _check_room(folder: Path, groups: Sequence[str]) -> None:
    sizes = [_SIZES[name] for name in groups if name in _SIZES]
    download, disk = (sum(size[at] for size in sizes) for at in (0, 1))
    print(f"to add: at most {download:.1f} GB to download, {disk:.1f} GB on disk", flush=True)
    free = shutil.disk_usage(folder).free
    if free < disk * GIB:
        raise StartError(
            f"{folder.parent} has {free / GIB:.1f} GiB free and needs {disk:.1f}: make room there"
        )


def _tell_frameworks(found: Sequence[Framework]) -> None:
    if not found:
        print(f"{sys.executable} has no framework: the locked torch is installed", flush=True)
        return
    print(f"measured: {', '.join(map(str, found))} of {sys.executable}", flush=True)
    for framework in found:
        if framework.cpu_only:
            print(
                f"{framework.name} there was built without CUDA: what needs it is left out; start "
                "with a Python that has another build, or none, to measure it",
                flush=True,
            )


def _run(env: Environment, arguments: list[str]) -> int:
    if not Path.cwd().is_relative_to(ROOT):
        os.chdir(ROOT)
    if _TENSORFLOW in arguments:
        arguments = [argument for argument in arguments if argument != _TENSORFLOW]
        if own := add_tensorflow(env):
            os.environ[_TENSORFLOW_PYTHON] = str(own.python)
    elif (TENSORFLOW_VENV / "bin" / "python").exists() and _TENSORFLOW_PYTHON not in os.environ:
        # `allocmark` finds it by itself, so that the commands in the record hold as they stand.
        print(
            f"TensorFlow is measured too: that of {TENSORFLOW_VENV} (to be deleted at will)",
            flush=True,
        )
    elif not ("--help" in arguments or os.environ.get(_TENSORFLOW_PYTHON) or _has_tensorflow()):
        print(
            f"TensorFlow is not measured: {_TENSORFLOW_PYTHON}=/its/python adds one that you have, "
            f"run {_TENSORFLOW} installs one (sizes: README.md)",
            flush=True,
        )
    run = [str(env.python), "-m", "allocmark", "run", *arguments]
    if not _needs_emulation(env) or "--help" in arguments:
        return _become(run)
    print("no NVIDIA driver here: the quick profile on the emulated driver", flush=True)
    if not any(argument.startswith(("--quick", "--profile")) for argument in arguments):
        run.append("--quick")
    if not any(argument.split("=")[0] == "--results" for argument in arguments):
        # results/ and reports/ are tracked: a first look must not make the clone dirty.
        run += ["--results", str(EMULATED_RESULTS)]
    return _become([str(env.python), "-m", "allocmark", "emulate", "--", *run])


def _test(env: Environment, arguments: list[str]) -> int:
    os.chdir(ROOT)
    if _TENSORFLOW in arguments:
        arguments = [argument for argument in arguments if argument != _TENSORFLOW]
        env = beside_torch(env)
    # Most tests wait for a process of their own; a file's tests share what they are tried on.
    alone = any(argument.startswith(("-n", "--pdb")) for argument in arguments)
    side_by_side = [] if alone else ["-n", "2", "--dist", "loadfile"]
    return _become([str(env.python), "-m", "pytest", *side_by_side, *arguments])


def _lint(env: Environment, arguments: list[str]) -> int:
    os.chdir(ROOT)
    if arguments:
        raise StartError("lint takes no arguments: run ruff or mypy of build/venv/bin yourself")
    statuses = []
    for check in (["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]):
        print("$ " + " ".join(check), flush=True)
        statuses.append(subprocess.run([str(env.python), "-m", *check], check=False).returncode)
    return max(statuses)


def _needs_emulation(env: Environment) -> bool:
    """Ask the project whether a driver, real or emulated, is there already."""
    code = (
        "from allocmark.machine.emulated import is_emulated;"
        "from allocmark.emulator.launcher import real_driver;"
        f"raise SystemExit(0 if real_driver() or is_emulated() else {_NO_DRIVER})"
    )
    return subprocess.run([str(env.python), "-c", code], check=False).returncode == _NO_DRIVER


def _become(command: list[str]) -> int:
    sys.stdout.flush()
    os.execv(command[0], command)


_COMMANDS = {"run": _run, "test": _test, "lint": _lint}
