"""Pictures of what commands print: they show it and fetch nothing; the README's is true."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from html import unescape
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from xml.etree import ElementTree

import pytest

from allocmark.tools.picture import picture
from tests.support.emulation import needs_torch

ROOT = Path(__file__).parents[2]
README = ROOT / "docs" / "pictures" / "replay.svg"
TORCH = "2.11."
"""What the picture was made with: another release may cut blocks in another way."""
_OF_THE_RECORD = re.compile(r"\d+ ms|-\d+/\+\d+ %")
"""Estimates of time, and by how much a model may be off: these are measured anew now and then."""


def installed_torch() -> str:
    """Return torch's version, nothing where it is absent."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


def shown(svg: str) -> list[str]:
    """Return the lines of a picture, runs of spaces as one."""
    lines: dict[float, str] = {}
    for element in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}text"):
        if "clip-path" in element.attrib:
            y = float(element.attrib["y"])
            lines[y] = lines.get(y, "") + unescape(element.text or "").replace("\xa0", " ")
    return [_OF_THE_RECORD.sub("X", " ".join(lines[y].split())) for y in sorted(lines)]


def test_a_picture_shows_every_line_and_fetches_nothing() -> None:
    output = "the answer: 1 < 2 & 3\n\nsetting   figure\n───────\ntorch      19.46 GiB ±7 %\n"
    svg = picture(output, "allocmark replay")
    assert [line for line in shown(svg) if line] == [
        " ".join(line.split()) for line in output.splitlines() if line
    ]
    assert "allocmark&#160;replay" in svg
    assert "@font-face" not in svg and "<!--" not in svg
    assert re.findall(r"https?://[^\s\"]+", svg) == ["http://www.w3.org/2000/svg"]
    assert picture(output, "allocmark replay") == svg


@needs_torch
@pytest.mark.skipif(
    not installed_torch().startswith(TORCH), reason=f"the picture is of torch {TORCH}*"
)
def test_the_readme_shows_what_replay_answers(tmp_path: Path) -> None:
    shutil.copy(ROOT / "examples" / "out_of_memory.py", tmp_path / "train.py")
    users = ("PYTORCH_", "COLUMNS")
    kept = {name: v for name, v in os.environ.items() if not name.startswith(users)}
    environment = {
        **kept,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "ALLOCMARK_LEFT_OUT_TENSORFLOW": "not in the picture",
    }

    def run(*words: str) -> str:
        command = [sys.executable, "-m", "allocmark", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        ).stdout

    record = ("emulate", "--memory", "24GiB", "--", sys.executable, "-m", "allocmark", "record")
    run(*record, "--", sys.executable, "train.py")
    lines = run("replay", "snapshot.pickle", "--emulated").splitlines(keepends=True)
    svg = picture("".join(lines[:21]), "allocmark replay snapshot.pickle")
    if os.environ.get("ALLOCMARK_GOLDEN") == "write":
        README.write_text(svg)
    assert shown(svg) == shown(README.read_text())
    assert "expandable_segments:True fits this card" in " ".join(shown(svg)[:2])
