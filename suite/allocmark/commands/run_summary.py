"""The answer in a few lines: verdicts, the findings that matter most, what is missing and why."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from allocmark.allocators import registry
from allocmark.experiments import catalog
from allocmark.experiments.core.experiment import Profile
from allocmark.measure.progress import named
from allocmark.schema import documents
from allocmark.system.errors import DocumentError
from allocmark.system.printable import visible
from allocmark.system.units import format_count

if TYPE_CHECKING:
    from allocmark.report.page import Part

_FINDINGS = 3
_REASONS = 6
"""Lines on what is missing; the page has them all."""
_LONGEST = 160
"""Characters of a reason: one line on most terminals."""


def summarize(front: Part, paths: Sequence[Path], page: Path, whole: Profile | None) -> None:
    """Write to standard error what came out, and to standard output the path of the page.

    `front` is what the page is about, `paths` the documents of this run, `whole` the profile of a
    run that measured all it has, None for one that was filtered.
    """
    lines = ["", *findings(front)] if whole else []
    say([*lines, *_missing(paths, whole)])
    say([f"report: {page.as_uri()}"])
    typer.echo(page)
    emulated = "allocmark emulate -- " if front.panel.emulated else ""
    say([f"next: {emulated}allocmark record -- python train.py; allocmark replay snapshot.pickle"])


def say(lines: Sequence[str]) -> None:
    """Write lines to standard error; nobody may be there to read them."""
    with contextlib.suppress(OSError):
        for line in lines:
            print(visible(line), file=sys.stderr, flush=True)


def findings(front: Part) -> Iterator[str]:
    """Yield how many statements hold in one sentence, then the figures that matter most."""
    from allocmark.claims import catalog as claims
    from allocmark.claims.core.claim import count_rulings, decided
    from allocmark.report.tables.verdicts import none_decided
    from allocmark.report.webpage.verdicts import SIGNS

    judged = claims.verdicts(front.panel)
    if not decided(judged):
        yield str(none_decided(judged))
        return
    counts = count_rulings(judged)
    emulated = " on the emulated driver (bytes and counts only)" if front.panel.emulated else ""
    tally = ", ".join(f"{ruling.words}: {count}" for ruling, count in counts.items() if count)
    yield f"{sum(counts.values())} statements judged{emulated}: {tally}"
    rulings = {one.claim.id: one.verdict.ruling for one in judged}
    for one in claims.headlines(judged)[:_FINDINGS]:
        unit = " ×" if one.evidence.cell.unit == "ratio" else ""
        yield f"  {SIGNS[rulings[one.id]]} {one.evidence.marked}{unit} {one.what}"


def _missing(paths: Sequence[Path], whole: Profile | None) -> Iterator[str]:
    """Yield a line for each reason that took figures away, those that took most away first."""
    empty: dict[str, list[str]] = {}
    incomplete: list[str] = []
    for path in paths:
        with contextlib.suppress(DocumentError):
            document = documents.read(path)
            name = f"{document.probe} of {document.subject}"
            if all(figure.value is None for figure in document.figures):
                reasons = [*(f.reason for f in document.failures), *_of_cells(document)]
                empty.setdefault(reasons[0], []).append(name)
            elif document.failures:
                incomplete.append(name)
    if whole is not None:
        for experiment in catalog.in_suite():
            if not experiment.subjects(list(registry().values()), whole):
                why = f"not in the {whole.name} profile"
                empty.setdefault(why, []).append(experiment.name)
    by_count = sorted(empty.items(), key=lambda item: -len(item[1]))
    for why, names in by_count[:_REASONS]:
        yield _cut(f"not measured: {named(names)}: {why}")
    if more := by_count[_REASONS:]:
        count = sum(len(names) for _, names in more)
        yield f"not measured: {format_count(count, 'document')} for other reasons, see the page"
    if incomplete:
        yield f"some figures missing, reasons on the page: {named(incomplete)}"


def _of_cells(document: documents.Document) -> Iterator[str]:
    yield from (figure.reason for figure in document.figures if figure.reason)
    yield "no figure was reported"


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
