"""C and C++ sources become shared libraries, once for each compiler, in the user's cache.

The cache is ``$XDG_CACHE_HOME/allocmark`` (default ``~/.cache/allocmark``). An entry is a folder
named by a hash of its sources and one of its compiler, made beside its final place and renamed,
under a lock: two processes that need the same library build it once, and a build that was cut off
leaves nothing behind that a later one would use. Each holds the checksums of its files: one that
was damaged is built again. Where no compiler is, another one's outcome serves.
"""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from allocmark.system.errors import NotBuiltError

Language = Literal["c", "c++"]

_VARIABLES: dict[Language, str] = {"c": "CC", "c++": "CXX"}
_COMPILERS: dict[Language, tuple[str, ...]] = {
    "c": ("cc", "gcc", "clang"),
    "c++": ("c++", "g++", "clang++"),
}
_STANDARDS: dict[Language, str] = {"c": "-std=gnu11", "c++": "-std=c++17"}
_KEPT_ERROR_LINES = 5
_SUMS = "checksums.json"
"""In each entry: its files' SHA-256 by their names."""


def compiler(language: Language = "c") -> list[str]:
    """Return the command of a compiler: ``$CC``/``$CXX``, the system's, or the ziglang package's.

    Raises `NotBuiltError` where there is none.
    """
    chosen = shlex.split(os.environ.get(_VARIABLES[language], ""))
    if chosen and shutil.which(chosen[0]):
        return chosen
    if path := next(filter(None, map(shutil.which, _COMPILERS[language])), None):
        return [path]
    if importlib.util.find_spec("ziglang"):
        return [sys.executable, "-m", "ziglang", _COMPILERS[language][0]]
    raise NotBuiltError(
        f"no {language.upper()} compiler: install gcc or clang, or `pip install ziglang`"
    )


def cache_folder() -> Path:
    """Return the folder of everything that is built here."""
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if base.is_absolute():  # Others are to be ignored, says the XDG base directory specification.
        return base / "allocmark"
    try:
        return Path.home() / ".cache" / "allocmark"
    except RuntimeError:
        raise NotBuiltError(
            "this user has no home folder: set XDG_CACHE_HOME to a folder that can be written"
        ) from None


def entry(
    name: str, ingredients: Sequence[str | bytes], made_by: Sequence[str | bytes] = ()
) -> Path:
    """Return the folder of the cache for these ingredients, whether it is there or not."""
    kinds = _digest([platform.machine(), *ingredients]), _digest(made_by)
    return cache_folder() / "-".join([name, *kinds])


def _digest(parts: Sequence[str | bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        content = part.encode() if isinstance(part, str) else part
        digest.update(len(content).to_bytes(8, "little") + content)
    return digest.hexdigest()[:20]


def made_by_another(folder: Path) -> Path | None:
    """Return an entry of the same ingredients by whichever compiler, None where none is whole."""
    alike = sorted(folder.parent.glob(f"{folder.name.rpartition('-')[0]}-*"))
    return next(filter(_is_whole, alike), None)


def _sums(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.iterdir()) if path.name != _SUMS)
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def _is_whole(folder: Path) -> bool:
    try:
        return bool(json.loads((folder / _SUMS).read_text()) == _sums(folder))
    except (OSError, ValueError):
        return False


def filled(folder: Path, build: Callable[[Path], None]) -> Path:
    """Return a folder of the cache, filled by `build` unless it is there and whole.

    `build` gets an empty folder; what it raises is passed on and leaves no entry. Raises
    `NotBuiltError` where the cache cannot be written.
    """
    if _is_whole(folder):
        return folder
    root, name = folder.parent, folder.name.rsplit("-", 2)[0]
    try:
        root.mkdir(parents=True, exist_ok=True)
        with _locked(root / f"{name}.lock"):
            if _is_whole(folder):
                return folder
            scratch = Path(tempfile.mkdtemp(dir=root, prefix=f".{name}-"))
            try:
                making = scratch / folder.name
                making.mkdir()
                build(making)
                (making / _SUMS).write_text(json.dumps(_sums(making)))
                if os.path.lexists(folder):  # Damaged; who has it loaded keeps it.
                    folder.rename(scratch / "damaged")
                making.rename(folder)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
    except OSError as error:
        raise NotBuiltError(
            f"{root} cannot be written ({error.strerror or error}): "
            "set XDG_CACHE_HOME to a folder that can"
        ) from error
    return folder


def shared_library(
    name: str,
    sources: Sequence[Path],
    *,
    language: Language = "c",
    flags: Sequence[str] = (),
    also: Sequence[Path] = (),
) -> Path:
    """Return ``<name>.so`` built from `sources`; `also` are files they include.

    Built with ``-O2 -fPIC -shared``, and `flags` (which come last, so they may hold ``-l``).
    Raises `NotBuiltError` with the compiler's first errors.
    """
    options = [_STANDARDS[language], "-O2", "-fPIC", "-shared"]
    ingredients: list[str | bytes] = [*options, *flags]
    ingredients += [path.read_bytes() for path in (*sources, *also)]
    try:
        command = compiler(language)
    except NotBuiltError:
        if before := made_by_another(entry(name, ingredients)):
            return before / f"{name}.so"
        raise

    def build(folder: Path) -> None:
        target = str(folder / f"{name}.so")
        run([*command, *options, "-o", target, *map(str, sources), *flags])

    # What changes when the compiler is updated, without the cost of starting it.
    executable = Path(command[0]).resolve()
    facts = executable.stat()
    identity = f"{executable} {facts.st_size} {facts.st_mtime_ns}"
    return filled(entry(name, ingredients, [*command, identity]), build) / f"{name}.so"


def run(command: Sequence[str]) -> None:
    """Run a compiler. Raises `NotBuiltError` with its first errors."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        raise NotBuiltError(f"{command[0]} does not start: {error.strerror}") from error
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line]
        text = "; ".join(lines[:_KEPT_ERROR_LINES]) or done.stderr.strip()[-500:]
        raise NotBuiltError(f"{Path(command[0]).name} could not build a library: {text}")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
