"""The environments of nights: kept by the digest of what is in them, made once, shared under locks.

A lane has one for torch, in which allocmark is, and one for TensorFlow, which needs other CUDA
libraries on a GPU. *pinned* is what the locks say, *rolling* what pip finds tonight. An environment
counts once it is whole: one whose making was cut off is made anew, and never kept in the place of a
good one. Several nights of one clone, on nodes that share it too, make each environment once.
"""

from __future__ import annotations

import ctypes
import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from starter.errors import StartError
from starter.places import LOCKS, NIGHTS, ROOT

LANES = ("pinned", "rolling")
PRE = "--pre"
KEPT = 2
"""So that what got worse can be measured with the software of the night before."""
_WHOLE = "allocmark-whole"
"""The file that an environment has once all is installed; its time is that of the last use."""
_DRIVER = "libcuda.so.1"
_EMULATED = "allocmark_emulator_version"
_TOO_NEW_FOR_TENSORFLOW = (3, 14)


@dataclass(frozen=True)
class Wanted:
    """An environment: `name` says lane and framework, each of `installs` is arguments of pip."""

    name: str
    digest: str
    installs: tuple[tuple[str, ...], ...]

    @property
    def folder(self) -> Path:
        """Where it lies."""
        return NIGHTS / f"{self.name}-{self.digest}"

    @property
    def python(self) -> Path:
        """Its interpreter."""
        return self.folder / "bin" / "python"


def require_driver() -> bool:
    """Return whether the driver is the emulated one.

    Raises `StartError` where there is none: asked before gigabytes are installed for it.
    """
    try:
        return hasattr(ctypes.CDLL(_DRIVER), _EMULATED)
    except OSError:
        raise StartError(
            f"no NVIDIA driver is installed here ({_DRIVER} is missing): a night needs a GPU, or "
            "the emulated driver (allocmark emulate -- …)"
        ) from None


def environments(lane: str, pre: bool, emulated: bool) -> list[Wanted]:
    """Return what a lane measures with: torch's environment, and TensorFlow's if there is one.

    Raises `StartError` for a lane that is none.
    """
    if lane not in LANES:
        raise StartError(f"unknown lane {lane!r}: choose from {', '.join(LANES)}")
    tensorflow = "tensorflow" if emulated else "tensorflow-cuda"
    has_tensorflow = sys.version_info < _TOO_NEW_FOR_TENSORFLOW
    if lane == "pinned":
        found = [_pinned("torch", ("site", "torch"), own=True)]
        return [*found, _pinned("tensorflow", (tensorflow,))] if has_tensorflow else found
    extra = [PRE] if pre else []
    found = [_rolling("torch", [*extra, ".[report,site]", "torch"], own=True)]
    package = "tensorflow" if emulated else "tensorflow[and-cuda]"
    return [*found, _rolling("tensorflow", [*extra, ".", package])] if has_tensorflow else found


def _pinned(framework: str, locks: Sequence[str], own: bool = False) -> Wanted:
    paths = [LOCKS / f"{name}.txt" for name in locks]
    words = [word for path in paths for word in ("-r", str(path))]
    contents = [path.read_bytes() for path in paths]
    installs = [("--require-hashes", *words), *([_own()] if own else [])]
    return Wanted(f"pinned-{framework}", _digest(contents), tuple(installs))


def _rolling(framework: str, words: Sequence[str], own: bool = False) -> Wanted:
    """Return what pip finds tonight: what it resolves is this lane's lock."""
    installs = [tuple(["--upgrade", *words]), *([_own()] if own else [])]
    return Wanted(f"rolling-{framework}", _digest([_resolved(words)]), tuple(installs))


def _own() -> tuple[str, ...]:
    return ("--no-deps", "-e", str(ROOT))


def _digest(contents: Sequence[bytes]) -> str:
    found = hashlib.sha256(sys.version.encode() + os.fsencode(sys.executable))
    for content in contents:
        found.update(hashlib.sha256(content).digest())
    return found.hexdigest()[:12]


def _resolved(words: Sequence[str]) -> bytes:
    """Return names and versions of all that pip would install into an empty environment."""
    resolver = Wanted("resolver", _digest([]), ())
    with made(resolver):
        report = [str(resolver.python), "-m", "pip", "install", "--dry-run", "--ignore-installed"]
        done = subprocess.run(
            [*report, "--quiet", "--report", "-", *words],
            capture_output=True,
            cwd=ROOT,
            check=False,
        )
    if done.returncode != 0:
        last = (
            done.stderr.decode(encoding="utf-8", errors="replace").strip().splitlines()
            or ["no reason"]
        )[-1]
        raise StartError(f"pip cannot say what the rolling lane would install: {last}")
    packages = [one["metadata"] for one in json.loads(done.stdout)["install"]]
    return json.dumps(sorted([one["name"], one["version"]] for one in packages)).encode()


@contextmanager
def made(wanted: Wanted) -> Iterator[int]:
    """Make the environment unless it is whole; yield the lock under which it is used.

    Raises `StartError` where pip cannot install something.
    """
    with _locked(wanted.folder.name, fcntl.LOCK_EX) as handle:
        if not (wanted.folder / _WHOLE).is_file():
            print(f"making {wanted.folder}", flush=True)
            shutil.rmtree(wanted.folder, ignore_errors=True)
            _run([sys.executable, "-m", "venv", str(wanted.folder)])
            for words in wanted.installs:
                pip = [str(wanted.python), "-m", "pip", "install", "--quiet"]
                _run([*pip, "--disable-pip-version-check", *words])
        (wanted.folder / _WHOLE).touch()
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_SH)
        yield handle


def _run(command: Sequence[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, check=False)
    if done.returncode != 0:
        raise StartError(f"{' '.join(command[:4])} … failed: the reason stands above")


@contextmanager
def _locked(name: str, how: int) -> Iterator[int]:
    NIGHTS.mkdir(parents=True, exist_ok=True)
    handle = os.open(NIGHTS / f"{name}.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(handle, how)
    except BlockingIOError:
        os.close(handle)
        raise
    except OSError:
        pass  # A file system without locks, as some network ones.
    try:
        yield handle
    finally:
        os.close(handle)


def prune(name: str) -> None:
    """Remove older environments of a name: of whole ones all but `KEPT`, and none that is used."""
    every = [path for path in NIGHTS.glob(f"{name}-*") if path.is_dir()]
    whole = [path for path in every if (path / _WHOLE).is_file()]
    whole.sort(key=lambda path: (path / _WHOLE).stat().st_mtime, reverse=True)
    for path in {*every} - {*whole[:KEPT]}:
        with suppress(BlockingIOError), _locked(path.name, fcntl.LOCK_EX | fcntl.LOCK_NB):
            shutil.rmtree(path, ignore_errors=True)


def night(arguments: Sequence[str]) -> int:
    """Become a night: ``LANE [--pre]`` and arguments of ``python -m allocmark.nightly``.

    Raises `StartError`.
    """
    lane, *rest = arguments or [""]
    ours, dashes, filters = _parted(rest)
    emulated = require_driver()
    wanted = environments(lane, PRE in ours, emulated)
    ours = [word for word in ours if word != PRE]
    pythons = []
    for one in wanted:
        with made(one) as handle:
            # The lock goes with the night, which this process becomes: nobody removes what it uses.
            os.set_inheritable(os.dup(handle), True)
        pythons.append(str(one.python))
    for one in wanted:
        prune(one.name)
    torch, *tensorflow = pythons
    if tensorflow:
        os.environ.setdefault("ALLOCMARK_PYTHON_TENSORFLOW", tensorflow[0])
    # A regression is an outcome: what fails is a night that does not come to its end.
    command = [torch, "-m", "allocmark.nightly", "--lane", lane, "--exit-regression", "0"]
    os.chdir(ROOT)
    sys.stdout.flush()
    os.execv(torch, [*command, *ours, *dashes, *filters])


def _parted(words: Sequence[str]) -> tuple[list[str], list[str], list[str]]:
    """Return the words before ``--``, it, and those after it, which are not ours to look at."""
    if "--" not in words:
        return list(words), [], []
    at = list(words).index("--")
    return list(words[:at]), ["--"], list(words[at + 1 :])
