"""Installs locked distributions with pip, offline where pip is told so, and explains failures."""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from starter import locks
from starter.environment import BARE, Environment, heard
from starter.errors import StartError
from starter.places import LOCKS

_MOST_ROUNDS = 20
_SHOWN = re.compile(r"(?:Downloading|Using cached) (?P<what>\S+)\s.*?(?P<size>[\d.]+ [MG]B)")
_NAMED = ("torch==", "tensorflow==", "asv==", "pandas==", "ruff==", "pytest==")
_LARGE = re.compile(r"\d{3,}\.?\d* MB|GB")
"""What is worth a line while it is downloaded."""
_UNREACHABLE = re.compile(
    r"(?i)failed to establish a new connection|name resolution|connection (?:refused|reset)|"
    r"network is unreachable|read timed out|connect timeout|max retries exceeded|proxyerror"
)
_FULL = re.compile(r"(?i)no space left on device|disk quota exceeded")


def missing(environment: Environment, groups: Sequence[str]) -> dict[str, str | None]:
    """Return what the environment lacks for these groups: distribution to locked version."""
    script = Path(__file__).parent / "requirements.py"
    done = heard([str(environment.python), str(script), *groups])
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise StartError(
            f"{environment.python} cannot say what it lacks ({last}): "
            f"delete {environment.folder} and start again"
        )
    return dict(json.loads(done.stdout))


def complete(
    environment: Environment, groups: Sequence[str], lacking: dict[str, str | None]
) -> None:
    """Install what is lacking, then what that needs, until nothing is; raises `StartError`."""
    entries = locks.entries(locks.files(groups))
    for _ in range(_MOST_ROUNDS):
        if not lacking:
            return
        if unknown := sorted(name for name, version in lacking.items() if version is None):
            raise StartError(
                f"the locks in {LOCKS.name}/ hold no {', '.join(unknown)} for this Python: "
                "start with Python 3.11 to 3.14, or install it there yourself"
            )
        _install(environment, sorted(f"{k}=={v}" for k, v in lacking.items()), entries)
        before, lacking = lacking, missing(environment, groups)
        if again := sorted(before.keys() & lacking.keys()):
            raise StartError(
                f"{', '.join(again)} was installed and still is not as the project needs it: "
                f"delete {environment.folder} and start again"
            )
    raise StartError(f"delete {environment.folder} and start again: its needs have no end")


def _install(environment: Environment, pins: Sequence[str], entries: dict[str, list[str]]) -> None:
    named = [pin for pin in pins if pin.startswith(_NAMED)] or list(pins[:1])
    more = f" and {len(pins) - len(named)} more" if len(pins) > len(named) else ""
    print(f"adding {', '.join(named)}{more}", flush=True)
    lines = [line for pin in pins for line in entries[pin.partition("==")[0]]]
    with tempfile.TemporaryDirectory(prefix="allocmark-start-") as scratch:
        wanted = Path(scratch) / "requirements.txt"
        wanted.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [str(environment.python), "-m", "pip", "install", "--no-deps", "--no-user"]
        command += ["--require-hashes", "--disable-pip-version-check", "--no-input"]
        variables = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        process = subprocess.Popen(
            [*command, "-r", str(wanted)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            env={**variables, BARE: "1"},
        )
        said: list[str] = []
        assert process.stdout is not None
        for line in process.stdout:
            said.append(line.rstrip())
            if (shown := _SHOWN.search(line)) and _LARGE.search(shown["size"]):
                print(f"  {shown['what']} ({shown['size']})", flush=True)
        if process.wait() != 0:
            raise StartError(_explanation("\n".join(said), pins))


def _explanation(said: str, pins: Sequence[str]) -> str:
    """Return what pip's output means and what to do, as one sentence."""
    needed = ", ".join(pins)
    carried = "set PIP_NO_INDEX=1 and PIP_FIND_LINKS to a folder with the wheels of"
    if _FULL.search(said):
        return (
            "the disk is full: make room (TMPDIR and PIP_CACHE_DIR may point to another disk) "
            "and start again, what is installed stays"
        )
    if "DO NOT MATCH THE HASHES" in said:
        return (
            "a file that pip found is not the locked one: use the wheels of the versions in "
            f"{LOCKS.name}/ for {needed}"
        )
    if _UNREACHABLE.search(said):
        return f"pip cannot reach its package index: connect this machine, or {carried} {needed}"
    absent = re.search(r"No matching distribution found for (\S+)", said)
    if absent and os.environ.get("PIP_NO_INDEX"):
        return (
            f"the folders that pip may look in (PIP_NO_INDEX is set) lack {absent[1]}: "
            f"put the wheels of these there: {needed}"
        )
    if absent:
        return (
            f"pip's index has no {absent[1]} for this Python and machine: "
            f"use another index, or {carried} {needed}"
        )
    errors = [line for line in said.splitlines() if line.startswith("ERROR")] or said.splitlines()
    return f"pip could not install {needed}: {errors[-1] if errors else 'it gave no reason'}"
