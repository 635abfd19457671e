"""The page about an emulated run beside hardware, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allocmark.schema.documents import Document
from allocmark.store.escape import markdown, markdown_line
from allocmark.tools.agreement_comparison import DocumentComparison
from allocmark.tools.agreement_events import Event, counts

FRAGMENTATION = "fragmentation"
OTHERS = ("capacity", "placement", "pressure")
"""Experiments of which cells are compared, and nothing else."""
Compared = tuple[Document, Document, DocumentComparison]
"""A document of hardware, an emulated one, and what they come to."""

_HEAD = ("experiment", "allocator", "cells", "equal")
_RULE = ("---", "---", "---:", "---:")
TITLE = "The emulated driver against hardware"
ABOUT = (
    "The same workloads ran over the same allocators on a GPU and on the emulated driver. A cell "
    "is a number of bytes, calls, blocks or a ratio of them; a reading is a point of a curve "
    "(requested, allocated or reserved bytes after an event). Events are compared where both sides "
    "recorded all of them: one is equal if allocated and reserved bytes, segments, driver calls, "
    "retries and failures are after it. A request is a region that TensorFlow's BFC asked the "
    "driver for: equal if its bytes are, and as many of the workload's regions lie below it. "
    "Equal means to the byte. Times are not compared. Where cells differ, the share is the "
    "largest difference of any cell in bytes, relative to hardware.",
    "What is behind cudaMallocAsync, and so behind the backends of torch and TensorFlow of that "
    "name, is part of NVIDIA's driver: the emulated one has a model of it, which holds other "
    "amounts. All else is the allocators' own code. CuPy and RMM bring a CUDA runtime of their "
    "own, which the emulated driver refuses: nothing of theirs is compared.",
    "No count of events means that hardware has no record of them all: of an allocator that "
    "cannot start clean twice in a process, of one whose replays are slow, and of a setting that "
    "was measured in a run of everything and not by name. "
    "How far BFC's regions lie from each other is not compared: "
    "hardware puts them into the gaps that the process's libraries leave, and leaves 64 MiB free "
    "above one of 512 MiB, 512 MiB above one of 4 GiB. BFC joins no two regions, so that no "
    "decision depends on it.",
)
_OTHERS = (
    "Cells of other experiments. Capacities end where a search's steps do; counters under pressure "
    "include what the driver keeps of the whole card; placement tells which hole a request goes "
    "into, whether what is left of it serves the next one, and whether freed neighbours become one."
)


def render(compared: Sequence[Compared], others: Sequence[Compared] = ()) -> str:
    """Return the page: the tables, the differing events, the conditions of both sides."""
    head = ["allocator", *("cells", "equal", "readings", "equal", "events", "equal")]
    head += ["requests", "equal", "largest difference", "where"]
    rows = [row(comparison) for _, _, comparison in compared]
    events = _first_events([comparison for _, _, comparison in compared])
    cells = [
        [document.probe, found.allocator, f"{len(found.cells):,}", f"{found.cells_equal:,}"]
        for document, _, found in others
    ]
    documents = [document for both in (*compared, *others) for document in both[:2]]
    parts = [
        f"# {TITLE}",
        *ABOUT,
        _table(head, ["---", *["---:"] * 9, "---"], rows),
        *(["## First differing event of each workload", "\n".join(events)] if events else []),
        *(["## Other experiments", _OTHERS, _table(_HEAD, _RULE, cells)] if cells else []),
        "## Conditions",
        "\n".join(_conditions(documents)),
    ]
    return "\n\n".join(parts) + "\n"


def row(comparison: DocumentComparison) -> list[str]:
    """Return an allocator's row; one without a cell on both sides says what is missing."""
    largest = comparison.largest
    numbers = [len(comparison.cells), comparison.cells_equal]
    numbers += [comparison.readings, comparison.readings_equal]
    pairs = (counts(comparison.courses), counts(comparison.requests))
    counted = [f"{n:,}" if pair[0] else "" for pair in pairs for n in pair]
    share = f"{100 * largest.share:.2g} %" if largest else "none"
    where = f"{largest.metric} of {largest.workload}" if largest else ""
    if not comparison.cells:
        share, where = "", "nothing measured on both sides"
    elif comparison.only_one:
        where = f"{where}; {len(comparison.only_one)} on one side only".removeprefix("; ")
    return [comparison.allocator, *(f"{n:,}" for n in numbers), *counted, share, where]


def _first_events(compared: Sequence[DocumentComparison]) -> list[str]:
    """Return a line for each event, with all allocators that part there with the same readings."""
    found: dict[Event, list[str]] = {}
    for comparison in compared:
        for event in comparison.first_events:
            found.setdefault(event, []).append(comparison.allocator)
    return [
        f"- {markdown_line(', '.join(allocators))}: {markdown_line(_sentence(event))}"
        for event, allocators in found.items()
    ]


def _sentence(event: Event) -> str:
    counter = event.column.replace("_", " ")
    return (
        f"{event.workload}, {counter} after event {event.event} is "
        f"{event.hardware:,.0f} on hardware, {event.emulated:,.0f} emulated"
    )


def _table(head: Sequence[str], rule: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [map(markdown, head), rule, *(map(markdown, texts) for texts in rows)]
    return "\n".join(f"| {' | '.join(texts)} |" for texts in cells)


def _conditions(found: Sequence[Document]) -> list[str]:
    """Return a line for each side and framework: every name of the stack with all its values."""
    merged: dict[str, dict[str, dict[str, None]]] = {}
    for document in found:
        held: Mapping[str, object] = {
            **document.stack,
            "profile": document.profile,
            "date": document.started[:10],
            "suite": document.suite,
        }
        side = "emulated" if document.emulated else "hardware"
        place = f"{side}, {document.stack.get('framework', 'no framework')}"
        values = merged.setdefault(place, {})
        for key, value in held.items():
            if value is not None:
                values.setdefault(key, {})[str(value)] = None
    lines = []
    for place, values in sorted(merged.items()):
        texts = [f"{key.replace('_', ' ')} {' / '.join(seen)}" for key, seen in values.items()]
        lines.append("- " + markdown_line(f"{place}: {'; '.join(texts)}."))
    return lines
