"""Recordings of several ranks in, one answer out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from allocmark.allocators.torch_caching import NATIVE
from allocmark.replays import perfetto_trace
from allocmark.replays.children import Done
from allocmark.replays.command import ReplayRequest, options_of, progress
from allocmark.replays.jobs import job_answer, job_page, job_table, rank_files
from allocmark.replays.jobs.job_answer import JobAnswer, RankAnswer
from allocmark.replays.run import replay
from allocmark.system.errors import EXIT_FINE, EXIT_UNCLEAR, lookup

_WIDTH = 110


class JobWriter(Protocol):
    """Writes an answer for a job, all of it where it is to be verbose."""

    def __call__(self, job: JobAnswer, verbose: bool = False) -> str: ...


def is_job(files: Sequence[Path]) -> bool:
    """Say whether files are to be answered for together."""
    return len(files) > 1 or files[0].is_dir()


def find(
    files: Sequence[Path],
    request: ReplayRequest,
    done: Done = progress,
    of_recorded: bool = False,
    search: bool = True,
) -> JobAnswer:
    """Read recordings, replay each that allocates otherwise, and answer for all.

    `of_recorded`: only under what each was recorded under. Without `search` the smallest capacity
    is not looked for.
    """
    answers = []
    for one in rank_files.read(files, request.device):
        options = replace(options_of(request), search=search)
        if of_recorded:
            options = replace(options, settings=(one.recording.setting or NATIVE,))

        def told(name: str, ended: int, count: int, rank: str = one.name) -> None:
            done(f"{name}, {rank}", ended, count)

        answers.append(RankAnswer(one, replay(one.recording, options, told)))
    return job_answer.of(answers)


def answer(
    files: Sequence[Path], request: ReplayRequest, format: str, show: Callable[[str], None]
) -> int:
    """Show the answer for a job as one of `FORMATS`, write page and trace, return the exit code.

    Progress goes to standard error. The code is `EXIT_UNCLEAR` where no setting could be replayed
    to its end for every rank. Raises `AllocmarkError` for what cannot be read or written.
    """
    write = lookup("format", format, FORMATS)
    request.check_places()
    job = find(files, request)
    show(write(job, request.verbose))
    if request.page is not None:
        job_page.write(request.page, job)
    if request.perfetto is not None:
        of_ranks = {rank.of.name: rank.answer for rank in job.ranks}
        perfetto_trace.write(request.perfetto, job_answer.summary(job), of_ranks)
    known = any(one.smallest_card_bytes is not None for one in job.settings)
    return EXIT_FINE if known else EXIT_UNCLEAR


def explain(files: Sequence[Path], device: int | None, format: str) -> str:
    """Return what the memory of recordings is made of, under what they were recorded under."""
    write = lookup("format", format, EXPLANATIONS)
    request = ReplayRequest(files[0], device=device, emulated=True)
    return write(find(files, request, of_recorded=True, search=False))


def _as_json(job: JobAnswer, verbose: bool = False) -> str:
    return json.dumps(job.to_json(), indent=1, allow_nan=False) + "\n"


def _as_table(job: JobAnswer, verbose: bool = False) -> str:
    return job_table.text(job, max(shutil.get_terminal_size((_WIDTH, 0)).columns, _WIDTH), verbose)


FORMATS: Mapping[str, JobWriter] = {
    "table": _as_table,
    "md": job_table.markdown,
    "json": _as_json,
}
EXPLANATIONS: Mapping[str, Callable[[JobAnswer], str]] = {
    "text": job_table.explanations,
    "json": _as_json,
}
