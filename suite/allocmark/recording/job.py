"""Several ranks of one job, each run alone and recorded: a snapshot and a log of each."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from allocmark.hook.rank import OBJECTS
from allocmark.recording.distinct_ranks import distinct, mesh
from allocmark.recording.importers import reader
from allocmark.recording.importers.recording import Recording
from allocmark.recording.record import taken
from allocmark.schema.documents import write_whole
from allocmark.system.errors import EXIT_FINE, EXIT_UNCLEAR, AllocmarkError
from allocmark.workloads.event_trace import Op

ALL, DISTINCT = "all", "distinct"
JOB_SUFFIX = ".job.json"
"""Ends the name of the file that says which ranks were recorded, and for which others."""
_PEAKS = ("peak_requested_bytes", "peak_allocated_bytes", "peak_reserved_bytes")
_MOST_LISTED = 8
_LAST_LINES = 5


@dataclass(frozen=True, slots=True)
class Job:
    """What to run: a command as ranks of a job, with the words for ``allocmark record``."""

    command: Sequence[str]
    world_size: int
    local_world_size: int | None
    options: Sequence[str]
    out: Path
    at_a_time: int


def chosen(text: str, world_size: int) -> list[int] | None:
    """Return the ranks that a text names, None for those that are distinct.

    Raises `AllocmarkError` for a text that names none, or one that the job does not have.
    """
    if text == DISTINCT:
        return None
    if text == ALL:
        return list(range(world_size))
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:-(\d+))?", part.strip())
        if match is None:
            raise AllocmarkError(
                f"--ranks {text}: give all, distinct, or numbers as in 0,37,500-511"
            )
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
    if beyond := [rank for rank in found if rank >= world_size]:
        raise AllocmarkError(f"--ranks {text}: a job of {world_size} has no rank {min(beyond)}")
    return sorted(found)


def record_job(job: Job, ranks: Sequence[int] | None) -> int:
    """Record ranks, None for the distinct ones; return an exit code. Says what each stands for.

    The code is `EXIT_UNCLEAR` where a rank left no snapshot. Raises `AllocmarkError` where a
    recording of that name is already, or the first rank left none.
    """
    if before := taken(job.out):
        raise AllocmarkError(f"{before} is there already: move it away, or name another --out")
    with tempfile.TemporaryDirectory(prefix="allocmark-objects-") as objects:
        running = _Running(job, Path(objects))
        found = _all_of(running, ranks) if ranks is not None else _distinct(running, job.world_size)
    for rank in running.recorded.keys() - found.keys():  # Alike, or run for what they send.
        running.recorded[rank].unlink()
        running.recorded[rank].with_suffix(".log").unlink()
    content = {
        "world_size": job.world_size,
        "ranks": {
            str(rank): {"file": running.recorded[rank].name, "alike": list(alike)}
            for rank, alike in found.items()
            if rank in running.recorded
        },
        "missing": sorted(running.missing),
    }
    write_whole(job.out.with_suffix(JOB_SUFFIX), (json.dumps(content) + "\n").encode())
    return EXIT_UNCLEAR if running.missing else EXIT_FINE


@dataclass(frozen=True, slots=True)
class _Waits:
    """A rank that stopped, as another has not sent what it waits for; `path` is where it comes."""

    source: int
    path: Path


def _all_of(running: _Running, ranks: Sequence[int]) -> dict[int, list[int]]:
    running.run(ranks)
    return {rank: [rank] for rank in ranks if rank in running.recorded}


def _distinct(running: _Running, world_size: int) -> dict[int, list[int]]:
    running.run([0])
    if 0 not in running.recorded:
        raise AllocmarkError("rank 0 left no snapshot, so which ranks are distinct is not known")
    dimensions = mesh(world_size, running.groups())
    found = distinct(dimensions, running.run)
    sizes = " x ".join(str(len(line)) for line in dimensions)
    _say(f"a mesh of {sizes}: {len(running.recorded)} ranks were run for {world_size}")
    for rank, alike in found.items():
        _say(f"rank {rank} stands for {len(alike)}: {listed(alike)}")
    return found


class _Running:
    """The ranks that have been run; `objects` is the folder of what they send each other."""

    def __init__(self, job: Job, objects: Path) -> None:
        self._job, self._objects = job, objects
        self._lock = threading.Lock()
        self.recorded: dict[int, Path] = {}
        self.missing: set[int] = set()
        self._digests: dict[int, str] = {}

    def run(self, ranks: Sequence[int]) -> Mapping[int, str]:
        """Run those that have not been, and return what tells their allocations apart.

        One that waits for another is run again when that has sent, and the other is run for it.
        """
        ready = {rank for rank in ranks if rank not in self._digests}
        waiting: dict[int, _Waits] = {}
        while ready:
            with ThreadPoolExecutor(self._job.at_a_time) as pool:
                ended = dict(zip(sorted(ready), pool.map(self._run, sorted(ready)), strict=True))
            for rank, outcome in ended.items():
                if isinstance(outcome, _Waits):
                    waiting[rank] = outcome
                else:
                    self._digests[rank] = outcome
            ready = {rank for rank, waits in waiting.items() if waits.path.exists()}
            sources = {waits.source for waits in waiting.values()}
            ready |= sources - self._digests.keys() - waiting.keys()
            for rank in ready:
                waiting.pop(rank, None)
        for rank, waits in waiting.items():
            self.missing.add(rank)
            self._digests[rank] = f"missing {rank}"
            _say(
                f"rank {rank} left no snapshot: it waits for what rank {waits.source} does not send"
            )
        return {rank: self._digests[rank] for rank in ranks}

    def groups(self) -> list[list[int]]:
        """Return the groups that rank 0 is in, by their ranks."""
        made = job_facts(reader.read(self.recorded[0])).get("groups", [])
        return [_ranks(str(group).rpartition(" ")[2]) for group in made]

    def _run(self, rank: int) -> str | _Waits:
        job = self._job
        out = job.out.with_stem(f"{job.out.stem}.rank{rank}")
        log = out.with_suffix(".log")
        with tempfile.TemporaryDirectory(dir=out.parent, prefix=".recording-") as folder:
            file = Path(folder, "snapshot.pickle")
            status = self._process(rank, file, log)
            if waits := self._waits(rank):
                return waits
            written = next(iter(sorted(Path(folder).glob("snapshot*.pickle"))), None)
            if written is None:
                with self._lock:
                    self.missing.add(rank)
                    _say(f"rank {rank} left no snapshot (exit code {status}), see {log}:")
                    for line in log.read_text(errors="replace").splitlines()[-_LAST_LINES:]:
                        print(f"    {line}", file=sys.stderr, flush=True)
                return f"missing {rank}"
            written.rename(out)
        ended = f", which ended with exit code {status}" if status else ""
        with self._lock:
            self.recorded[rank] = out
            _say(f"{out}: rank {rank} of {job.world_size}{ended}")
        return digest(reader.read(out))

    def _process(self, rank: int, file: Path, log: Path) -> int:
        job = self._job
        local = job.local_world_size
        machine = [] if local is None else ["--local-world-size", str(local)]
        asked = ["--world-size", str(job.world_size), "--rank", str(rank), *machine]
        words = ["record", *asked, *job.options, "--out", str(file), "--", *job.command]
        with log.open("wb") as stream:
            return subprocess.run(
                [sys.executable, "-m", "allocmark", *words],
                env={**os.environ, OBJECTS: str(self._objects)},
                stdout=stream,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                check=False,
            ).returncode

    def _waits(self, rank: int) -> _Waits | None:
        told = self._objects / f"waits.{rank}"
        if not told.exists():
            return None
        source, _, path = told.read_text().partition(" ")
        told.unlink()
        return _Waits(int(source), Path(path))


def _ranks(text: str) -> list[int]:
    """Return the ranks of a group as the hook writes them."""
    numbers = [int(number) for number in re.split("[:,]", text)]
    return list(range(*numbers)) if ":" in text else numbers


def job_facts(recording: Recording) -> Mapping[str, Any]:
    """Return what a recording says of its job, nothing where it is of none."""
    found = recording.environment.get("job")
    return found if isinstance(found, Mapping) else {}


def digest(recording: Recording) -> str:
    """Return what two ranks that allocate alike have in common.

    The sizes of all allocations and the peaks, not the order: what frees in the middle of a step
    is up to Python's threads.
    """
    trace = recording.trace
    sizes, counts = np.unique(trace.size[trace.op == Op.ALLOC], return_counts=True)
    peaks = sorted(item for item in recording.counted.items() if item[0] in _PEAKS)
    told = [sizes.tolist(), counts.tolist(), peaks]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def listed(ranks: Sequence[int]) -> str:
    """Return ranks in words, those that follow each other as a range: ``0-3, 8``."""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    texts = [str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    more = f" and {len(texts) - _MOST_LISTED} more ranges" if len(texts) > _MOST_LISTED else ""
    return ", ".join(texts[:_MOST_LISTED]) + more


def at_a_time(is_emulated: bool) -> int:
    """Return how many ranks run side by side: on a GPU they would take each other's memory."""
    return max(1, os.cpu_count() or 1) if is_emulated else 1


def _say(text: str) -> None:
    print(f"allocmark: {text}", file=sys.stderr, flush=True)
