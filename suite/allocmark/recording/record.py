"""Runs a command with torch's memory history on, and says what was written and what it cost."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from allocmark.hook import entering
from allocmark.system import foreground
from allocmark.system.errors import DISK_FULL, EXIT_UNCLEAR, AllocmarkError, DiskFullError
from allocmark.system.lifetime import how_ended
from allocmark.system.printable import visible
from allocmark.system.units import format_bytes

DEFAULT = Path("snapshot.pickle")
_VARIABLE = "ALLOCMARK_RECORD"
MOST_ENTRIES = 1_000_000
_BY_SIGNAL = 128
"""An exit status above it names the signal that ended the command, as a shell's does."""
_UNSEEN = "by a signal, or by _exit outside of Python's main thread"


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """Where to write, how many entries to keep, whether with stacks, and whether only at OOM.

    Without a place it is `DEFAULT`, or the next free name after it.
    """

    out: Path | None = None
    max_entries: int = MOST_ENTRIES
    stacks: bool = True
    on_oom: bool = False


def record(
    command: Sequence[str],
    options: RecordOptions,
    more: Mapping[str, str] | None = None,
    made: Sequence[Path] = (),
) -> int:
    """Run a command and return its exit status; what was written goes to standard error.

    `more` are variables for it (a rank's, an emulated driver's), `made` the files that these need,
    to be removed where this process is killed. The status is `EXIT_UNCLEAR` where
    the command succeeded and nothing was written. Raises `AllocmarkError` for a place that cannot
    be written to, one where a recording is already, or a command that cannot be started.
    """
    out = (options.out or _free(DEFAULT)).absolute()
    folder = out.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise AllocmarkError(f"{folder} is no folder that can be written to: name another --out")
    if before := taken(out):
        raise AllocmarkError(f"{before} is there already: move it away, or name another --out")
    if options.max_entries < 1:
        raise AllocmarkError(f"{options.max_entries} entries cannot be kept: ask for at least 1")
    with tempfile.TemporaryDirectory(prefix="allocmark-record-") as scratch:
        settings = {**asdict(options), "out": str(out), "reports": scratch}
        entered = entering({**(more or {}), _VARIABLE: json.dumps(settings)})
        leaves = [Path(scratch), *made]
        status = foreground.run(command, {**os.environ, **entered}, leaves)
        reports = _reports(Path(scratch))
        started = sorted(path.name.partition(".")[2] for path in Path(scratch).glob("started.*"))
    _give_name(out, reports)
    for report in reports:
        _say(_sentence(report))
    silent = set(started) - {report.get("started") for report in reports}
    if reports and silent and not options.on_oom:
        _say(_silent(len(silent), len(started), status))
    if any("file" in report for report in reports):
        return status
    if reports:  # The reasons have been said.
        return status or EXIT_UNCLEAR
    _say(_nothing(options, bool(started), status))
    return status or (0 if options.on_oom else EXIT_UNCLEAR)


def taken(out: Path) -> Path | None:
    """Return a file that is there of a recording of this name: its own, or another process's."""
    if os.path.lexists(out):
        return out
    stem, dot, ending = out.name.rpartition(".")
    stem, ending = (stem, ending) if dot else (ending, "")
    name = rf"{re.escape(stem)}\.(rank|pid)\d+(-\d+)?{re.escape(dot + ending)}"
    others = (path for path in out.parent.iterdir() if re.fullmatch(name, path.name))
    return min(others, default=None)


def _free(first: Path) -> Path:
    """Return the first of a name and its numbered successors that no recording has."""
    numbered = (first.with_stem(f"{first.stem}-{number}") for number in itertools.count(2))
    return next(path for path in itertools.chain([first], numbered) if not taken(path))


def _say(text: str) -> None:
    print(f"allocmark: {visible(text)}", file=sys.stderr)


def _give_name(out: Path, reports: Sequence[dict[str, Any]]) -> None:
    """Give the name asked for to the first that wrote, where its first holder wrote nothing."""
    of_process = re.compile(rf"{re.escape(out.stem)}\.pid\d+(-\d+)?{re.escape(out.suffix)}")
    wrote = [r for r in reports if of_process.fullmatch(Path(r.get("file", "")).name)]
    if wrote and not os.path.lexists(out):
        first = min(wrote, key=lambda report: str(report.get("started")))
        try:
            Path(first["file"]).rename(out)
        except OSError:  # It stays under the name that is said.
            return
        first["file"] = str(out)


def _silent(silent: int, started: int, status: int) -> str:
    """Say how many processes used CUDA and left nothing."""
    many = "processes" if started > 1 else "process"
    by = f"{how_ended(_BY_SIGNAL - status)}" if status > _BY_SIGNAL else _UNSEEN
    return f"{silent} of {started} {many} that used CUDA wrote nothing: ended {by}"


def _reports(folder: Path) -> list[dict[str, Any]]:
    """Return what the processes reported, the last word on each file only."""
    last: dict[str, dict[str, Any]] = {}
    for path in sorted(folder.glob("report.*"), key=lambda path: int(path.name.split(".")[-1])):
        try:
            report = json.loads(path.read_text(encoding="utf-8"))
        except ValueError:  # It was cut off: the disk of temporary files is full as well.
            report = {"why": "some time", "fault": "what the program told of it is cut off"}
        last[report.get("file", path.name)] = report
    return list(last.values())


def _sentence(report: dict[str, Any]) -> str:
    if report.get("errno") in DISK_FULL:
        return str(DiskFullError(f"{report['out']} could not be written at {report['why']}"))
    if "fault" in report:
        return f"no snapshot at {report['why']}: {report['fault']}"
    entries, size = report["entries"], format_bytes(report["file_bytes"])
    text = f"{report['file']}: {entries} entries, {size}, written at {report['why']}"
    if report["full"]:
        text += "; its ring was full, so the oldest are forgotten (--max-entries)"
    text += f". Cost: {report['write_seconds']:.2f} s to write"
    if "event_seconds" in report:
        each, ran = report["event_seconds"], report["program_seconds"]
        text += (
            f", about {each * 1e6:.1f} us an entry (measured at its end, 20 frames deep), "
            f"{each * entries:.2f} s of {ran:.1f} s in all"
        )
    return text


def _nothing(options: RecordOptions, started: bool, status: int) -> str:
    """Say why there is no snapshot."""
    text = "no snapshot was written: "
    if started and options.on_oom:
        return f"{text}no request to torch's allocator failed for lack of memory"
    if started and status > _BY_SIGNAL:
        return f"{text}the command was ended {how_ended(_BY_SIGNAL - status)}"
    if started:
        return f"{text}what used CUDA was ended {_UNSEEN}"
    text += "the command never started CUDA through torch, or runs Python without its path (-I, -E)"
    try:
        ctypes.CDLL("libcuda.so.1")  # A driver, real or emulated.
    except OSError:
        text += (
            ". No NVIDIA driver is here; the emulated one records as well: "
            "allocmark emulate -- allocmark record -- COMMAND"
        )
    return text
