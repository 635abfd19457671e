"""The answer for a job as one page that needs nothing else."""

from __future__ import annotations

from pathlib import Path

from allocmark.replays import breakdown_svg
from allocmark.replays.explanation import explain
from allocmark.replays.jobs import job_table
from allocmark.replays.jobs.job_answer import JobAnswer, stands_for, summary
from allocmark.replays.page import KINDS, filled
from allocmark.schema.documents import write_whole

_TEMPLATE = Path(__file__).with_name("job_page.html.j2")


def write(path: Path, job: JobAnswer) -> None:
    """Write the page, whole or not at all; what comes from the recordings is escaped."""
    write_whole(path, render(job).encode())


def render(job: JobAnswer) -> str:
    """Return the page's text."""
    explained = [(rank, explain(rank.answer)) for rank in job.ranks]
    sizes = f" of {job.world_size}" if job.world_size else ""
    return filled(
        _TEMPLATE,
        title=f"allocmark replay: {job.count}{sizes} ranks",
        summary=summary(job),
        emulated=any(rank.answer.emulated for rank in job.ranks),
        tables=[
            (
                "Ranks, under the setting that comes first",
                job_table.RANK_COLUMNS,
                job_table.rank_rows(job),
            ),
            (
                "Settings, best first (*: recorded)",
                job_table.SETTING_COLUMNS,
                job_table.setting_rows(job),
            ),
        ],
        notes=job_table.notes(job),
        kinds=KINDS,
        ranks=[
            {
                "name": f"rank {stands_for(rank)}" if rank.of.rank is not None else rank.of.name,
                "source": rank.answer.recording.source,
                "agreement": rank.answer.agreement.text,
                "explained": one,
                "segments_svg": breakdown_svg.segment_map(one.map) if one else "",
            }
            for rank, one in explained
        ],
    )
