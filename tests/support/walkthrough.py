"""Pages that lead from zero to an answer: their commands, and what these print.

A block of commands (``sh``) that a block of output (``text``) follows is run, in a folder of its
own, one after the other. In the output ``…`` stands for what is left out: a line of it for any
number of lines. Times, dates, the folder, and by how much a model may be off (that follows from
the record) are whatever they are.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BLOCK = re.compile(
    r"^```sh\n(?P<commands>(?:(?!```).*\n)+)```\n+```text\n(?P<output>(?:(?!```).*\n)+)```",
    re.MULTILINE,
)
_FILE = re.compile(r"`(?P<name>[\w.]+)`:\n+^```python\n(?P<text>.*?)^```", re.DOTALL | re.MULTILINE)
_ANY = "…"
_MASKED = (
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{8}"), "NIGHT"),
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:]+Z"), "DATE"),
    (re.compile(r"\b\d[\d,.]* (?:s|ms|µs|ns|min)\b"), "TIME"),
    (re.compile(r"-py3\.\d+"), "-py3"),
    (re.compile(r"\(-\d+/\+\d+ %\)"), "(OFF)"),
    (re.compile(r"(?<=\S) {2,}(?=\S)"), " "),
)
_OURS = ("ALLOCMARK", "PYTORCH_", "COLUMNS", "CI")


@dataclass(frozen=True, slots=True)
class Step:
    """Commands of a page, and the output that it shows for them."""

    commands: str
    output: str


def steps(page: Path) -> list[Step]:
    """Return the steps of a page, in order."""
    found = _BLOCK.finditer(page.read_text(encoding="utf-8"))
    return [Step(one["commands"], one["output"]) for one in found]


def files(page: Path) -> Iterator[tuple[str, str]]:
    """Yield the files that a page shows, each named in the line before it."""
    for one in _FILE.finditer(page.read_text(encoding="utf-8")):
        yield one["name"], one["text"]


def run(step: Step, folder: Path) -> str:
    """Return what the commands print, both streams together, as a terminal shows them."""
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    for name, words in (("allocmark", " -m allocmark"), ("python", "")):
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}"{words} "$@"\n')
        program.chmod(0o755)
    kept = {name: v for name, v in os.environ.items() if not name.startswith(_OURS)}
    environment = {
        **kept,
        "PATH": os.pathsep.join([str(programs), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "ALLOCMARK_LEFT_OUT_TENSORFLOW": "not part of the page",
    }
    return subprocess.run(
        ["bash", "-c", step.commands],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    ).stdout


def accept(page: Path, step: Step, printed: str, folder: Path) -> None:
    """Have the page show what is printed now, unless it leaves lines out."""
    if _ANY not in step.output.splitlines():
        text = page.read_text(encoding="utf-8")
        before, _, after = text.partition(f"{step.commands}```\n\n```text\n{step.output}")
        shown = f"{step.commands}```\n\n```text\n{_without(printed, folder)}"
        page.write_text(f"{before}{shown}{after}", encoding="utf-8")


def _without(printed: str, folder: Path) -> str:
    uri = folder.as_uri()
    return printed.replace(uri, f"{uri.removesuffix(str(folder))}/{_ANY}").replace(f"{folder}/", "")


def differs(step: Step, printed: str, folder: Path) -> str | None:
    """Return the first line of the page that is not printed, None where all are."""
    actual = _masked(_without(printed, folder))
    pattern = ""
    for line in _masked(step.output).splitlines():
        if line == _ANY:
            pattern += r"(?:.*\n)*?"
            continue
        pattern += ".*".join(map(re.escape, line.split(_ANY))) + r"\n"
        if not re.match(pattern, actual):
            return line
    return None if re.fullmatch(pattern, actual) else "the end"


def _masked(text: str) -> str:
    lines = "".join(f"{line.rstrip()}\n" for line in text.splitlines())
    for pattern, name in _MASKED:
        lines = pattern.sub(name, lines)
    return lines
