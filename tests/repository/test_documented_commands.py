"""Every command that the README or the docs show exists, with the options that it is shown with."""

from __future__ import annotations

import ast
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.main import get_command

from allocmark.allocators import registry
from allocmark.commands.app import app
from allocmark.experiments import catalog
from starter import commands

PROJECT = Path(__file__).parents[2]
PAGES = (
    *(PROJECT / name for name in ("README.md", "README.zh.md", "CONTRIBUTING.md")),
    *sorted((PROJECT / "docs").glob("*.md")),
    *sorted((PROJECT / "suite").rglob("README.md")),
)
_FENCED = re.compile(r"^```sh\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`((?:allocmark|python3?|nox) [^`]+)`")
_ASSIGNED = re.compile(r"\w+=.*")
_PYTHON = re.compile(r"(.*/)?python[\d.]*")
"""An interpreter, wherever it lies."""


def _shown() -> Iterator[tuple[str, str]]:
    """Yield each command line with the page that shows it."""
    for page in PAGES:
        text = page.read_text()
        for block in _FENCED.findall(text):
            for line in block.replace("\\\n", " ").splitlines():
                for part in re.split(r"&&|[;|](?=\s)", line):
                    yield page.name, part
        for part in _INLINE.findall(text):
            yield page.name, part


SHOWN = sorted(set(_shown()))


def _words(line: str) -> list[str]:
    words = shlex.split(line, comments=True)
    while words and _ASSIGNED.fullmatch(words[0]):
        words.pop(0)
    return words


@pytest.mark.parametrize(("page", "line"), SHOWN, ids=[f"{page}: {line}" for page, line in SHOWN])
def test_a_command_that_is_shown_exists(page: str, line: str) -> None:
    _check(_words(line))


def test_the_pages_show_commands_of_every_kind() -> None:
    firsts = {_words(line)[0] for _, line in SHOWN if _words(line)}
    assert {"allocmark", "python", "python3", "nox", "asv"} <= firsts
    assert len(SHOWN) > 40
    named = {words[1] for _, line in SHOWN if (words := _words(line))[:1] == ["allocmark"]}
    assert set(get_command(app).commands) <= named, "a command that no page shows"  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "line",
    [
        "allocmark measure",
        "allocmark run --experiments latency",
        "allocmark run --experiment lattency",
        "allocmark emulate -- allocmark run --fast",
        "python -m allocmark.no_such_module",
        "allocmark dev power --no-such-option",
        "allocmark dev nothing",
        "python -m allocmark.nightly --no-such-option",
        "python3 suite/start.py measure",
        "python examples/none.py",
        "nox -s nothing",
    ],
)
def test_one_that_does_not_exist_is_found(line: str) -> None:
    with pytest.raises(AssertionError):
        _check(_words(line))


def _check(words: Sequence[str]) -> None:
    if words[:1] == ["allocmark"]:
        _check_allocmark(words[1:])
    elif words[:1] == ["nox"] and "-s" in words:
        session = words[words.index("-s") + 1].partition("(")[0]
        assert session in _sessions()
    elif words and _PYTHON.fullmatch(words[0]):
        _check_python(words[1:])


def _check_allocmark(words: Sequence[str]) -> None:
    own, inner = _parted(words)
    known = get_command(app).commands  # type: ignore[attr-defined]
    if own[0] in ("--help", "--version"):
        return
    assert own[0] in known, own[0]
    command = known[own[0]]
    if own[0] == "dev" and own[1:]:
        assert own[1] in command.commands, own[1]
        command = command.commands[own[1]]
    options = {name for one in command.params for name in one.opts} | {"--help"}
    for at, word in enumerate(own):
        name, _, value = word.partition("=")
        assert not name.startswith("--") or name in options, name
        value = value or (own[at + 1] if at + 1 < len(own) else "")
        if name == "--experiment":
            assert value in [each.name for each in catalog.in_suite()]
        if name == "--allocator" and value:
            assert value in registry()
    _check(inner)


def _check_python(words: Sequence[str]) -> None:
    if words[:1] == ["-m"]:
        module, *rest = words[1:]
        own, inner = _parted(rest)
        if module == "allocmark":
            _check_allocmark(rest)
        elif module.startswith("allocmark."):
            assert find_spec(module) is not None, module
            asked = [word.partition("=")[0] for word in own if word.startswith("--")]
            for name in asked:
                assert re.search(rf"{name}\b", _help(module)), name
            _check(inner)
    elif words[:1] == ["suite/start.py"]:
        assert words[1] in (*commands._COMMANDS, commands._NIGHT), words[1]
    elif words and words[0].startswith(("suite/", "examples/")):
        assert (PROJECT / words[0]).is_file(), words[0]


def _parted(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return what a command takes itself, and the command after ``--``."""
    at = words.index("--") if "--" in words else len(words)
    return list(words[:at]), list(words[at + 1 :])


@cache
def _help(module: str) -> str:
    command = [sys.executable, "-m", module, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


@cache
def _sessions() -> frozenset[str]:
    """Return the names of nox's sessions; nox itself need not be there."""
    tree = ast.parse((PROJECT / "noxfile.py").read_text())
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef))
    return frozenset(
        one.name
        for one in functions
        if any("nox.session" in ast.unparse(each) for each in one.decorator_list)
    )
