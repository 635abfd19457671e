"""The project's own environment in ``build/venv``: made, layered over another, remembered.

It is layered over the interpreter it was made with where that has a framework: what that one
brings is seen, and only what is missing is added. ``--system-site-packages`` would not do, since
from inside another environment it shows the packages of the base interpreter.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from starter.errors import StartError
from starter.places import LOCKS, PYPROJECT, ROOT, SUITE, VENV

BARE = "ALLOCMARK_START_BARE"
"""Set for pip alone: it must not see, and try to replace, what the layer below brings."""

_MARKER = "allocmark-start.json"
_LAYER = "allocmark-start.pth"


@dataclass(frozen=True)
class Note:
    """What an environment remembers of itself."""

    maker: str = ""
    contents: str = ""
    groups: Sequence[str] = ()
    started_with: str = ""


@dataclass(frozen=True)
class Environment:
    """A virtual environment of the project."""

    folder: Path
    below: tuple[str, ...]  # site folders that it is layered over, none for a closed one
    maker: str  # what the environment cannot outlive: the interpreter, its frameworks, the clone

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.folder / "bin" / "python"

    @property
    def packages(self) -> Path:
        """The folder of the environment's own packages."""
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        return self.folder / "lib" / version / "site-packages"

    def is_ready(self, groups: Sequence[str]) -> bool:
        """Return whether these groups are set up and nothing that decides about them changed."""
        told = read_note(self.folder)
        return told.contents == self._contents() and set(groups) <= set(told.groups)

    def remember(self, groups: Sequence[str]) -> None:
        """Note that these groups are set up, in addition to those that still hold."""
        told, contents = read_note(self.folder), self._contents()
        kept = told.groups if told.contents == contents else []
        note = Note(self.maker, contents, sorted({*groups, *kept}), sys.executable)
        scratch = self.folder / f"{_MARKER}.{os.getpid()}"
        scratch.write_text(json.dumps(asdict(note), indent=1), encoding="utf-8")
        scratch.rename(self.folder / _MARKER)

    def prepare(self) -> None:
        """Make the environment unless it is there; raises `StartError`.

        Another interpreter's is kept beside, and taken back when that one starts again: it is
        gigabytes, and paths within it hold in this folder alone.
        """
        told = read_note(self.folder)
        if told.maker == self.maker and self.python.exists():
            return
        if told.started_with not in ("", sys.executable):
            kept = _beside(self.folder, told.started_with)
            shutil.rmtree(kept, ignore_errors=True)
            self.folder.rename(kept)
            print(f"kept for {told.started_with}: {kept} (delete it at will)", flush=True)
        before = _beside(self.folder, sys.executable)
        if read_note(before).maker == self.maker:
            before.rename(self.folder)
            print(f"taken back: {self.folder}, as {sys.executable} left it", flush=True)
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        _make(self.folder)
        lines = [f"import os, sys; sys.path.append({_spelled(SUITE)})"]
        lines += [
            f"import os, site; os.environ.get({BARE!r}) or site.addsitedir({_spelled(path)})"
            for path in self.below
        ]
        (self.packages / _LAYER).write_text("\n".join(lines) + "\n", encoding="ascii")
        # Of asv too: where the interpreter below has it, pip installs none and makes no command.
        for name in ("allocmark", "asv"):
            command = self.folder / "bin" / name
            text = f'#!/bin/sh\nexec "$(dirname "$0")/python" -m {name} "$@"\n'
            command.write_text(text, encoding="utf-8")
            command.chmod(0o755)
        # From here on it is known whose it is; no group is set up yet.
        self.remember(())

    def _contents(self) -> str:
        """Return a hash of all that decides about what is installed: cheap, taken each start."""
        digest = hashlib.sha256()
        sources = sorted(Path(__file__).parent.glob("*.py"))
        for path in [PYPROJECT, *sorted(LOCKS.glob("*.txt")), *sources]:
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
        inherited = os.environ.get("PYTHONPATH", "")
        for folder in [*self.below, *filter(None, inherited.split(os.pathsep))]:
            changed = Path(folder).stat().st_mtime_ns if Path(folder).is_dir() else 0
            digest.update(os.fsencode(f"{folder}\0{changed}\0"))
        return digest.hexdigest()


def environment(
    below: Iterable[str], frameworks: Iterable[str], folder: Path = VENV
) -> Environment:
    """Return the environment of the running interpreter, layered over these site folders."""
    maker = [str(ROOT), sys.executable, sys.version, *below, "frameworks:", *frameworks]
    digest = hashlib.sha256(os.fsencode("\0".join(maker))).hexdigest()
    return Environment(folder, tuple(below), digest)


def _beside(folder: Path, interpreter: str) -> Path:
    """Return where the environment of an interpreter is kept while another has its place."""
    digest = hashlib.sha256(os.fsencode(interpreter)).hexdigest()
    return folder.with_name(f"{folder.name}-of-{digest[:8]}")


def read_note(folder: Path) -> Note:
    """Return what an environment remembers of itself; empty where it does not."""
    try:
        return Note(**json.loads((folder / _MARKER).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return Note()


def heard(command: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run a command to its end and return it with what it wrote."""
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", errors="replace", check=False
    )


def _spelled(path: Path | str) -> str:
    """Return an expression for a path, of its bytes: they name the same folder in every locale.

    Python 3.11 and 3.12 read .pth files in the locale's encoding, in UTF-8 mode too.
    """
    return f"os.fsdecode({os.fsencode(path)!r})"


def _make(folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StartError(
            f"{folder.parent} cannot be made ({error.strerror}): "
            "use a clone in a folder that you may write to"
        ) from error
    done = heard([sys.executable, "-m", "venv", str(folder)])
    if done.returncode == 0:
        return
    shutil.rmtree(folder, ignore_errors=True)
    said = (done.stdout + done.stderr).strip()
    if "No space left" in said:
        raise StartError(f"the disk of {folder.parent} is full: make room and start again")
    if "ensurepip" in said or "No module named venv" in said:
        raise StartError(
            f"{sys.executable} has no working venv and ensurepip modules: install them "
            "(on Debian and Ubuntu: apt install python3-venv), or start with another Python"
        )
    last = said.splitlines()[-1] if said else f"exit status {done.returncode}"
    raise StartError(f"{sys.executable} -m venv {folder} failed: {last}")
