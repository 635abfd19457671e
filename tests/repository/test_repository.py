"""What is committed: no host, no path of a machine, nothing large, a docstring in each module."""

from __future__ import annotations

import ast
import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LARGEST_BYTES = 3_000_000
_URL = re.compile(r"(?:https?|file|ftp|git\+ssh)://[^\s\"')]+")
_KNOWN_URLS = re.compile(r"^http://(?:y|\{address\}/.*|www\.w3\.org/.*|json-schema\.org/.*)$")
_MACHINE = re.compile(r"(?<![\w.])/(?:root/|home/\w|work/|Users/\w)")
_OUTSIDE = "../" + "shared"


def _tracked() -> list[Path]:
    """Return every file that git tracks or would add, and skip where this is no clone."""
    try:
        done = subprocess.run(
            ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            check=True,
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no git clone")
    paths = [ROOT / name for name in done.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file()]


def _texts(*suffixes: str) -> list[tuple[str, str]]:
    """Return path and text of the files with these endings, or of all that are text."""
    found = []
    for path in _tracked():
        if path == Path(__file__) or (suffixes and path.suffix not in suffixes):
            continue
        try:
            found.append((str(path.relative_to(ROOT)), path.read_text()))
        except UnicodeDecodeError:
            continue
    return found


def test_no_file_is_large() -> None:
    large = [path for path in _tracked() if path.stat().st_size > LARGEST_BYTES]
    assert not large


def test_sources_and_locks_name_no_url() -> None:
    wrong = []
    for path, text in _texts(".py", ".c", ".h", ".cpp", ".txt", ".toml", ".yaml", ".cfg"):
        wrong += [f"{path}: {url}" for url in _URL.findall(text) if not _KNOWN_URLS.match(url)]
    assert not wrong


def test_nothing_names_a_folder_of_some_machine() -> None:
    wrong = []
    for path, text in _texts():
        if path.startswith(("results/", "reports/")):
            continue
        wrong += [f"{path}: {found}" for found in _MACHINE.findall(text)]
        if _OUTSIDE in text:
            wrong.append(f"{path}: {_OUTSIDE}")
    assert not wrong


def test_every_lock_is_pinned_and_hashed() -> None:
    locks = sorted((ROOT / "requirements").glob("*.txt"))
    expected = {"core", "dev", "report", "tensorflow", "tensorflow-cuda", "test", "torch"}
    assert expected <= {lock.stem for lock in locks}
    for lock in locks:
        entries = re.split(r"\n(?=[A-Za-z])", lock.read_text().strip())
        for entry in entries:
            assert re.match(r"[A-Za-z0-9._-]+==\S", entry), entry.splitlines()[0]
            assert "--hash=sha256:" in entry, entry.splitlines()[0]


def test_every_module_of_the_project_says_what_it_is() -> None:
    silent = [
        path
        for path in _tracked()
        if path.suffix == ".py" and path.is_relative_to(ROOT / "suite")
        if (text := path.read_text()) and not ast.get_docstring(ast.parse(text))
    ]
    assert not silent


def test_every_shell_script_stops_at_the_first_error() -> None:
    assert "set -euo pipefail" in (ROOT / ".ci" / "run").read_text()
