"""What the record says of a GPU model under a driver: the bytes that must be equal, and times."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.schema.figure import Figure
from allocmark.schema.metrics import context, latency
from allocmark.system.errors import DocumentError

_CONTEXT = f"{context.EXPERIMENT}.{context.DRIVER}{documents.SUFFIX}"
_LATENCY = f"{latency.EXPERIMENT}.cuda-malloc{documents.SUFFIX}"


@dataclass(frozen=True, slots=True)
class Expected:
    """Of one GPU model, driver and kind of driver (real or emulated).

    `context_bytes` of a bare context by meter, in `context_seconds`; `total_bytes` of the card;
    `alloc_ns` of a `cudaMalloc` by size. Nothing is known where nothing was measured.
    """

    context_bytes: dict[str, int] = field(default_factory=dict)
    context_seconds: float | None = None
    total_bytes: int | None = None
    alloc_ns: tuple[tuple[int, float], ...] = ()

    def alloc_ns_of(self, size_bytes: int) -> float | None:
        """Return what an allocation takes by the record: straight lines between logarithms."""
        points = [(math.log(size), math.log(ns)) for size, ns in self.alloc_ns]
        if not points:
            return None
        wanted = math.log(size_bytes)
        place = bisect_left([size for size, _ in points], wanted)
        if place in (0, len(points)):
            return math.exp(points[min(place, len(points) - 1)][1])
        (low, low_ns), (high, high_ns) = points[place - 1 : place + 1]
        return math.exp(low_ns + (high_ns - low_ns) * (wanted - low) / (high - low))


def expected(folders: Iterable[Path], gpu: str, driver: str, emulated: bool) -> Expected:
    """Return what the newest documents of that GPU model and driver say.

    `total_bytes` is left out of an emulated card, whose size is a wish.
    """

    def newest(name: str) -> Document | None:
        found = [
            document
            for folder in folders
            for path in sorted(folder.glob(f"*/*/*/{name}"))
            if (document := _read(path)) is not None
            and document.emulated == emulated
            and document.stack.get("gpu") == gpu
            and document.stack.get("driver") == driver
        ]
        return max(found, key=lambda document: document.started, default=None)

    folders = tuple(folders)
    bare, calls = newest(_CONTEXT), newest(_LATENCY)
    first = _cells(bare, context.STAGE_SECONDS.name, stage=context.CONTEXT)
    any_document = bare or calls
    return Expected(
        context_bytes={
            str(figure.axes["meter"]): round(figure.value)
            for figure in _cells(bare, context.TOTAL_BYTES.name, stage=context.CONTEXT)
            if figure.value is not None
        },
        context_seconds=first[0].value if first else None,
        total_bytes=None
        if any_document is None or emulated
        else int(any_document.stack["total_bytes"]),
        alloc_ns=tuple(
            sorted(
                (int(figure.axes["bytes"]), figure.value)
                for figure in _cells(
                    calls,
                    latency.CALL_NS.name,
                    path=latency.MISS,
                    call=latency.ALLOC,
                    level=latency.ALLOCATOR,
                    wait=latency.HOST,
                )
                if figure.value
            )
        ),
    )


def _read(path: Path) -> Document | None:
    try:
        return documents.read(path)
    except DocumentError:  # The report names it; a check of the hardware goes on.
        return None


def _cells(document: Document | None, metric: str, **axes: str) -> Sequence[Figure]:
    return [
        figure
        for figure in (() if document is None else document.figures)
        if figure.metric == metric
        and axes.items() <= figure.axes.items()
        and figure.axes.get("module_loading", context.LAZY) == context.LAZY
    ]
