"""Record the programs: ``python -m allocmark.tools.record_workloads --out DIR``.

Each run has a process of its own with torch's allocator as it comes. With ``--setting NAME`` the
programs run under another of torch's allocators instead, and only its counters are written. With
``--twice`` each recording is made two times, and refused if they differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from allocmark.allocators import registry
from allocmark.allocators.base import Allocator
from allocmark.allocators.torch_caching import NATIVE, NO_CACHE
from allocmark.system.errors import AllocmarkError, UnknownNameError
from allocmark.system.stopping import until_stopped
from allocmark.workloads import trace_file
from allocmark.workloads.programs import NAMES

_LIMIT_S = 300
_UNCOUNTED = (NO_CACHE,)
"""Settings under which torch's counters see nothing."""


def settings() -> dict[str, Allocator]:
    """Return torch's allocators that a program can run under, by name."""
    return {
        name: allocator
        for name, allocator in registry().items()
        if allocator.framework == "torch" and name not in _UNCOUNTED
    }


def run(name: str, setting: str, out: Path, steps: int | None = None, device: int = 0) -> None:
    """Run one program in a fresh process under one setting; the files go to `out`.

    Raises `UnknownNameError`, or `AllocmarkError` with the process's last words if it fails.
    """
    known = settings()
    if name not in NAMES:
        raise UnknownNameError("program", name, list(NAMES))
    if setting not in known:
        raise UnknownNameError("torch setting", setting, list(known))
    # What the user exported for other programs must not change what is recorded.
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTORCH_")}
    asked = {"program": name, "setting": setting, "steps": steps, "device": device}
    try:
        ended = subprocess.run(
            [
                sys.executable,
                "-m",
                "allocmark.tools.recording_process",
                json.dumps({**asked, "out": str(out)}),
            ],
            env={**clean, **known[setting].environment},
            capture_output=True,
            timeout=_LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise AllocmarkError(f"{name} under {setting} took longer than {_LIMIT_S} s") from error
    if ended.returncode != 0:
        lines = ended.stderr.decode(errors="replace").strip().splitlines() or ["no message"]
        raise AllocmarkError(
            f"{name} under {setting} ended with exit code {ended.returncode}: {lines[-1]}"
        )


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


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m allocmark.tools.record_workloads",
        description="Record the allocations of the suite's programs on this machine's GPU.",
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the files")
    parser.add_argument("--program", action="append", help=f"one of {', '.join(NAMES)}; all")
    parser.add_argument(
        "--setting",
        action="append",
        help="run under this torch allocator and write its counters only (repeatable)",
    )
    parser.add_argument("--steps", type=int, help="steps (default: the program's own)")
    parser.add_argument("--device", type=int, default=0, help="number of the GPU")
    parser.add_argument("--twice", action="store_true", help="record twice and compare")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    options = parser.parse_args(arguments)
    try:
        return _all(options)
    except AllocmarkError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code


def _all(options: argparse.Namespace) -> int:
    """Do what the options ask; one failure does not keep the others from being recorded."""
    programs, chosen = options.program or NAMES, options.setting or [NATIVE]
    work = [(name, setting) for setting in chosen for name in programs]
    out: Path = options.out
    out.mkdir(parents=True, exist_ok=True)

    def one(pair: tuple[str, str]) -> AllocmarkError | None:
        name, setting = pair
        try:
            if options.twice and setting == NATIVE:
                record_twice(name, out, options.steps, options.device)
            else:
                run(name, setting, out, options.steps, options.device)
        except AllocmarkError as error:
            return error
        return None

    status = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for (name, setting), error in zip(work, pool.map(one, work), strict=True):
            if error is None:
                print(f"{name} under {setting}: {_summary(out / f'{name}.{setting}.json')}")
            else:
                print(f"error: {error}", file=sys.stderr)
                status = max(status, error.exit_code)
    return status


def _summary(path: Path) -> str:
    counted = json.loads(path.read_text())
    return (
        f"peak reserved {counted['peak_reserved_bytes']} bytes, "
        f"peak allocated {counted['peak_allocated_bytes']}, {counted['seconds']} s"
    )


if __name__ == "__main__":
    raise SystemExit(until_stopped(main))
