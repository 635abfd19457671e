"""The Python that ``start.py`` was started with: its frameworks, and where its packages are."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import site
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

# Import package and the distributions that bring it; none of them is ever imported here.
_FRAMEWORKS = {
    "torch": ("torch",),
    "tensorflow": ("tensorflow", "tf-nightly", "tensorflow-cpu"),
    "cupy": ("cupy-cuda13x", "cupy-cuda12x", "cupy"),
}
_CUDA_LINE = re.compile(r"^cuda\b[^=]*=\s*(.+)$", re.MULTILINE)


@dataclass(frozen=True)
class Framework:
    """A framework that the interpreter can import."""

    name: str
    version: str  # "unknown" for a build without package metadata
    cpu_only: bool

    def __str__(self) -> str:
        return f"{self.name} {self.version}" + (" (a build without CUDA)" if self.cpu_only else "")


def frameworks() -> list[Framework]:
    """Return the frameworks of the running interpreter, without importing any."""
    found = []
    for name, distributions in _FRAMEWORKS.items():
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.origin is not None:
            cpu_only = name == "torch" and _is_cpu_torch(Path(spec.origin).parent)
            found.append(Framework(name, _version(distributions), cpu_only))
    return found


def site_folders() -> list[str]:
    """Return the folders that hold the running interpreter's packages, in its order."""
    known = set(site.getsitepackages())
    if site.ENABLE_USER_SITE:
        known.add(site.getusersitepackages())
    names = {"site-packages", "dist-packages"}
    return [
        path
        for path in dict.fromkeys(sys.path)
        if (path in known or Path(path).name in names) and Path(path).is_dir()
    ]


def _version(distributions: tuple[str, ...]) -> str:
    for name in distributions:
        with suppress(importlib.metadata.PackageNotFoundError):
            return importlib.metadata.version(name)
    return "unknown"


def _is_cpu_torch(folder: Path) -> bool:
    """Return whether torch's own version file says that it was built without CUDA."""
    try:
        told = _CUDA_LINE.search((folder / "version.py").read_text(encoding="utf-8"))
    except OSError:
        return False
    return told is not None and told[1].strip() == "None"
