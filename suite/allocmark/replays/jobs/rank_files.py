"""Which recordings are of which ranks, and of which others each is an example."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from allocmark.recording.importers import reader
from allocmark.recording.importers.recording import Recording
from allocmark.recording.job import JOB_SUFFIX, digest
from allocmark.replays import rank_notes
from allocmark.system.errors import AllocmarkError

_RANK = re.compile(r"(?P<stem>.+)\.rank(?P<rank>\d+)(?:-\d+)?\.[^.]+")


@dataclass(frozen=True, slots=True)
class RankFile:
    """A recording, the rank it is of (None where neither it nor its name tells), and those alike.

    `ranks` are all that it stands for, its own among them; empty where it has no rank.
    """

    file: Path
    recording: Recording
    rank: int | None
    ranks: tuple[int, ...]

    @property
    def name(self) -> str:
        """What it is called in a table."""
        return self.file.name if self.rank is None else f"rank {self.rank}"


def files(paths: Sequence[Path]) -> list[Path]:
    """Return the files of recordings, those of a folder in place of it.

    Raises `AllocmarkError` for a folder without one.
    """
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.pickle")) if path.is_dir() else [path]
        if not inside:
            raise AllocmarkError(f"{path} holds no recording: name a folder of *.pickle")
        found += inside
    return list(dict.fromkeys(found))


def read(paths: Sequence[Path], device: int | None) -> list[RankFile]:
    """Read recordings; of those that allocate alike only the first is kept, for all of them.

    In the order of their ranks. Raises `AllocmarkError` for one that cannot be read, and for two of
    one rank.
    """
    kept: dict[str, RankFile] = {}
    of_rank: dict[int, Path] = {}
    known = [_read(path, device) for path in files(paths)]
    for one in sorted(known, key=lambda one: (one.rank is None, one.rank or 0, str(one.file))):
        if one.rank is not None:
            if other := of_rank.get(one.rank):
                raise AllocmarkError(
                    f"{other} and {one.file} are both of rank {one.rank}: name the recordings of "
                    "one job"
                )
            of_rank[one.rank] = one.file
        alike = digest(one.recording) if one.rank is not None else str(one.file)
        first = kept.setdefault(alike, one)
        if first is not one:
            kept[alike] = replace(first, ranks=tuple(sorted({*first.ranks, *one.ranks})))
    return list(kept.values())


def _read(path: Path, device: int | None) -> RankFile:
    recording = reader.read(path, device)
    named = _RANK.fullmatch(path.name)
    told = rank_notes.job(recording).get("rank")
    rank = int(told) if isinstance(told, int) else int(named["rank"]) if named else None
    if rank is None:
        return RankFile(path, recording, None, ())
    alike = _alike(path.with_name(named["stem"] + JOB_SUFFIX), path.name) if named else ()
    return RankFile(path, recording, rank, tuple(sorted({rank, *alike})))


def _alike(job: Path, name: str) -> tuple[int, ...]:
    """Return the ranks that a recording stands for by the file of its job, none without one."""
    try:
        ranks = json.loads(job.read_text(encoding="utf-8"))["ranks"].values()
        return next((tuple(map(int, one["alike"])) for one in ranks if one["file"] == name), ())
    except OSError:
        return ()
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise AllocmarkError(f"{job} is damaged: delete it, or record the job again") from error
