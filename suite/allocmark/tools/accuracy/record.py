"""Measures programs and writes one document for each (`measure_all`)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from allocmark import __version__
from allocmark.machine.conditions import read_conditions
from allocmark.machine.stack import Stack, read_stack
from allocmark.schema import documents, notes
from allocmark.schema.documents import Document, Failure
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import replay_agreement as metrics
from allocmark.schema.run_state import now
from allocmark.tools.accuracy import programs
from allocmark.tools.accuracy.figures import figures
from allocmark.tools.accuracy.measuring import AccuracyOptions, Measuring, ProgramFound, Say

LIBRARIES, EVENTS, OUTSIDE = "libraries", "recorded events", "outside the allocator, from"
"""Notes: the libraries' versions, the events of the recording, where the size of what lies outside
the allocator is from."""


def measure_all(results: Path, names: list[str] | None, options: AccuracyOptions, say: Say) -> None:
    """Measure each program (all, unless named) and write its document as it is done.

    Raises `NoGpuError` where there is none, `UnknownNameError` for a program or a setting.
    """
    chosen = programs.chosen(names)
    measuring = Measuring(chosen, options, say)
    stack, run, begin = read_stack("torch"), now(), time.monotonic()
    before = read_conditions(0).to_json()

    def ended(found: ProgramFound) -> None:
        path = documents.path_of(
            results, stack.machine, stack.name, "full", metrics.EXPERIMENT, found.program.name
        )
        document = _document(found, stack, run, time.monotonic() - begin, before)
        documents.write(path, document)
        say(f"{path}: {found.reason or _summary(document.figures)}")

    measuring.run(ended)


def _document(
    found: ProgramFound, stack: Stack, run: str, seconds: float, before: dict[str, Any]
) -> Document:
    name = found.program.name
    versions = found.program.versions().items()
    noted: dict[str, Any] = {
        notes.DESCRIPTION: found.program.description,
        LIBRARIES: ", ".join(f"{library} {version}" for library, version in versions),
    }
    for setting, own in found.settings.items():
        if own.above is not None and own.above.outcome is not None and own.above.outcome.error:
            noted[f"{notes.ERROR}{setting}, 1 % above"] = own.above.outcome.error
    if found.recording is not None:
        noted[EVENTS] = len(found.recording.trace)
    if found.outside is not None:
        noted[OUTSIDE] = found.outside.source
    return Document(
        probe=metrics.EXPERIMENT,
        subject=name,
        profile="full",
        run=run,
        started=run,
        seconds=round(seconds, 3),
        command=f"allocmark dev replay-against-real --program {name}",
        suite=__version__,
        emulated=stack.emulated,
        stack=stack.to_json(),
        conditions={"before": before, "after": read_conditions(0).to_json(), notes.NOTES: noted},
        figures=figures(found),
        failures=[Failure("record", found.reason)] if found.reason else [],
    )


def _summary(found: Sequence[Figure]) -> str:
    """Return the differences of peaks, and how many tries went as predicted."""
    off = [
        f"{figure.axes['allocator']} {figure.value:+.2%}"
        for figure in found
        if figure.metric == metrics.EMULATED_DIFFERENCE_RATIO.name and figure.value is not None
    ]
    expected = {metrics.ABOVE_COMPLETES.name: 1, metrics.BELOW_COMPLETES.name: 0}
    tried = [f for f in found if f.metric in expected and f.value is not None]
    held = sum(figure.value == expected[figure.metric] for figure in tried)
    return (
        f"peak of the replay less real {', '.join(off)}; {held} of {len(tried)} tries as predicted"
    )
