"""An empty environment with the built wheel, what that declares, and nothing else: no network."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement

_OURS = ("ALLOCMARK_", "PYTHON", "PYTORCH_")


@dataclass(frozen=True, slots=True)
class Installed:
    """The environment's folder, and a way to run its programs."""

    folder: Path

    def run(self, *words: str, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Run a program of the environment, with nothing of this process's Python."""
        kept = {name: v for name, v in os.environ.items() if not name.startswith(_OURS)}
        path = os.pathsep.join([str(self.folder / "bin"), os.environ["PATH"]])
        return subprocess.run(
            words,
            cwd=cwd or self.folder,
            env={**kept, "PATH": path},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def output(self, *words: str, cwd: Path | None = None) -> str:
        """Return what a program prints that comes to its end."""
        done = self.run(*words, cwd=cwd)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout


def install(wheel: Path, folder: Path, *others: str, extras: Sequence[str] = ()) -> Installed:
    """Make an environment of a wheel by pip; what it needs is linked from this interpreter."""
    venv.create(folder)
    python = folder / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "--no-index", "--no-deps", str(wheel)], check=True, capture_output=True)
    (site,) = folder.glob("lib/python*/site-packages")
    (own,) = metadata.distributions(name="allocmark", path=[str(site)])
    needed = [*_needed(own, extras), *map(Requirement, others)]
    for name in _closure(needed):
        for entry in _entries(metadata.distribution(name)):
            if not (site / entry.name).exists():
                (site / entry.name).symlink_to(entry)
    return Installed(folder)


def _needed(of: metadata.Distribution, extras: Sequence[str] = ()) -> Iterator[Requirement]:
    """Yield what a distribution needs here."""
    for requirement in map(Requirement, of.requires or ()):
        marker = requirement.marker
        if marker is None or any(marker.evaluate({"extra": e}) for e in (*extras, "")):
            yield requirement


def _closure(needed: Sequence[Requirement]) -> list[str]:
    """Return the names of all that is needed, as far as it is there."""
    found: dict[str, None] = {}
    waiting = list(needed)
    while waiting:
        requirement = waiting.pop()
        if requirement.name in found:
            continue
        try:
            one = metadata.distribution(requirement.name)
        except metadata.PackageNotFoundError:  # Libraries of another system, say.
            continue
        found[requirement.name] = None
        waiting += _needed(one, tuple(requirement.extras))
    return list(found)


def _entries(of: metadata.Distribution) -> set[Path]:
    """Return the files and folders of a distribution right below its site-packages."""
    names = {path.parts[0] for path in of.files or () if path.parts[0] != ".."}
    return {Path(str(of.locate_file(name))) for name in names}
