"""A clone of the project, and commands in it on the emulated driver."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.machine.places import CONFIG, EMULATED_RESULTS

ROOT = Path(__file__).resolve().parents[2]
BENCHMARKS = "pressure.Counters|streams.PrivatePools"
"""Two experiments that take seconds."""


@dataclass(frozen=True)
class Clone:
    """A git repository with the suite in it, and a way to run commands there."""

    path: Path

    def environment(self, extra: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return an environment with nothing of the suite, and a home of its own."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith("ALLOCMARK")}
        home = self.path / "build" / "home"
        home.mkdir(parents=True, exist_ok=True)
        kept["PYTHONPATH"] = str(self.path / "suite")
        # Most tests are about one stack, also where both frameworks are installed.
        kept["ALLOCMARK_LEFT_OUT_TENSORFLOW"] = "not in this test"
        # What was compiled for another clone serves this one.
        kept.setdefault("XDG_CACHE_HOME", str(Path.home() / ".cache"))
        return {**kept, "HOME": str(home), **(extra or {})}

    def command(self, *words: str, emulated: bool = True) -> list[str]:
        """Return the command line, on the emulated driver or without any."""
        before = ["-m", "allocmark.emulator", "--gpu", "h200", "--memory", "8GiB", "--"]
        return [sys.executable, *(before if emulated else []), *words]

    def run(
        self,
        *words: str,
        emulated: bool = True,
        extra: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run ``python -m <words>`` to its end."""
        python = [sys.executable, "-m"] if emulated else ["-m"]
        return subprocess.run(
            self.command(*python, *words, emulated=emulated),
            cwd=self.path,
            env=self.environment(extra),
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def git(self, *words: str) -> str:
        """Run git."""
        who = ["-c", "user.name=test", "-c", "user.email=test@example.org"]
        done = subprocess.run(
            ["git", *who, *words], cwd=self.path, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def commit(self, note: str) -> str:
        """Commit a change of the suite; return its hash as asv writes it."""
        (self.path / "NOTE").write_text(note)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", note)
        return self.git("rev-parse", "--short=8", "HEAD")

    @property
    def results(self) -> Path:
        """Where runs on the emulated driver save."""
        return self.path.joinpath(*EMULATED_RESULTS)

    def of_emulated(self) -> list[str]:
        """Return what has asv look at emulated results, as docs/emulator.md says."""
        own = self.path / "asv.emulated.json"
        content = (self.path / CONFIG).read_text()
        own.write_text(content.replace('"results"', f'"{Path(*EMULATED_RESULTS)}"'))
        return ["--config", own.name]

    def asv_files(self) -> dict[str, bytes]:
        """Return asv's result files by name."""
        files = self.results.glob("*/*-stack-*.json")
        return {file.name: file.read_bytes() for file in files}

    def documents(self) -> Sequence[Path]:
        """Return the probe documents."""
        return sorted(self.results.rglob("*.json.gz"))


def clone_to(path: Path) -> Clone:
    """Make a repository of the working tree's suite at `path`, on its branch main."""
    for name in ("suite", "benchmarks"):
        shutil.copytree(ROOT / name, path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / CONFIG, path)
    (path / ".gitignore").write_text("build/\n__pycache__/\n")
    clone = Clone(path)
    clone.git("init", "-q", "-b", "main")
    clone.commit("first")
    return clone
