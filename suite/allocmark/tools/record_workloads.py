"""Record the programs: ``allocmark dev record-workloads --out DIR``.

Each run has a process of its own under torch's default settings. With ``--setting NAME`` the
programs run under another of torch's allocators instead, and only its counters are written. With
``--twice`` each recording is made two times, and refused if they differ.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.system.errors import EXIT_FINE, AllocmarkError, lookup, user_message
from allocmark.workloads import trace_file
from allocmark.workloads.programs import NAMES

_LIMIT_S = 300
_UNCOUNTED = (NO_CACHE,)
"""Settings under which torch's counters see nothing."""


def settings() -> dict[str, Allocator]:
    """Return torch's allocators that a program can run under, by name."""
    counted = [(name, each) for name, each in registry().items() if name not in _UNCOUNTED]
    return {name: each for name, each in counted if each.framework == "torch"}


def run(name: str, setting: str, out: Path, steps: int | None = None, device: int = 0) -> None:
    """Run one program in a fresh process under one setting; the files go to `out`.

    Raises `UnknownNameError`, or `AllocmarkError` with the process's last words if it fails.
    """
    lookup("program", name, dict.fromkeys(NAMES))
    allocator = lookup("torch setting", setting, settings())
    # What the user exported for other programs must not change what is recorded.
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTORCH_")}
    request = {"name": name, "setting": setting, "steps": steps, "device": device, "out": str(out)}
    command = [sys.executable, "-m", "allocmark.tools.recording_process", json.dumps(request)]
    variables = {**clean, **allocator.environment}
    try:
        ended = subprocess.run(
            command, env=variables, capture_output=True, timeout=_LIMIT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise AllocmarkError(f"{name} under {setting} took longer than {_LIMIT_S} s") from error
    if ended.returncode != 0:
        last = (ended.stderr.decode(errors="replace").strip().splitlines() or ["no message"])[-1]
        how = f"ended with exit code {ended.returncode}"
        raise AllocmarkError(f"{name} under {setting} {how}: {last}")


def record_twice(name: str, out: Path, steps: int | None = None, device: int = 0) -> None:
    """Record a program, and again into a scratch folder; refuse it if the events differ."""
    run(name, NATIVE, out, steps, device)
    with tempfile.TemporaryDirectory() as scratch:
        run(name, NATIVE, Path(scratch), steps, device)
        first = trace_file.read(out / f"{name}{trace_file.SUFFIX}")
        second = trace_file.read(Path(scratch) / f"{name}{trace_file.SUFFIX}")
    for column in ("op", "block", "size", "stream"):
        if getattr(first, column).tobytes() != getattr(second, column).tobytes():
            raise AllocmarkError(f"{name} does not repeat: two recordings differ in {column}")


def record_all(
    out: Path,
    say: Callable[[str], None],
    *,
    programs: Sequence[str] | None,
    settings: Sequence[str] | None,
    steps: int | None,
    device: int,
    twice: bool,
    jobs: int,
) -> int:
    """Record all programs, under `NATIVE`, unless they are named; returns the exit code.

    One failure does not keep the others from being recorded.
    """
    work = [(n, s) for s in settings or [NATIVE] for n in programs or NAMES]
    out.mkdir(parents=True, exist_ok=True)

    def record(name: str, setting: str) -> AllocmarkError | None:
        try:
            if twice and setting == NATIVE:
                record_twice(name, out, steps, device)
            else:
                run(name, setting, out, steps, device)
        except AllocmarkError as error:
            return error
        return None

    code = EXIT_FINE
    with ThreadPoolExecutor(jobs) as pool:
        failures = pool.map(record, *zip(*work, strict=True))
        for (name, setting), error in zip(work, failures, strict=True):
            if error is None:
                say(f"{name} under {setting}: {_summary(out / f'{name}.{setting}.json')}")
            else:
                print(user_message(error), file=sys.stderr)
                code = max(code, error.exit_code)
    return code


def _summary(path: Path) -> str:
    counted = json.loads(path.read_text())
    return (
        f"peak reserved {counted['peak_reserved_bytes']} bytes, "
        f"peak allocated {counted['peak_allocated_bytes']}, {counted['seconds']} s"
    )
