"""Pictures as SVG text: memory over the events, and the map of segments at one event."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np
from numpy.typing import NDArray

from allocmark.recording.importers.recording import BlockMap
from allocmark.replays.memory_breakdown import FREE
from allocmark.system.units import GIB, MIB, format_bytes

_WIDTH, _HEIGHT = 900, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 80, 30, 10, 40
_WIDE, _HIGH = _WIDTH - _LEFT - _RIGHT, _HEIGHT - _TOP - _BOTTOM
_TICKS = 5
_CELLS, _ROW, _GAP = 450, 12, 3
_MOST_ROWS = 40
_MOST_BORDERS = 600
KINDS = ("cached", "live", "stuck", "split", "pool")
"""What a cell of the map shows, as classes of the style sheet."""
_SPLIT, _POOL = KINDS.index("split"), KINDS.index("pool")


@dataclass(frozen=True, slots=True)
class Line:
    """One curve: a name, a class of the style sheet, events and bytes."""

    name: str
    kind: str
    events: Sequence[float]
    values: Sequence[float]


def curves(
    lines: Sequence[Line], marks: Mapping[str, float], limit: tuple[str, float] | None
) -> str:
    """Return memory over events; `marks` are events with a name, `limit` a level with a name."""
    last = max((line.events[-1] for line in lines if len(line.events)), default=1) or 1
    most = max((max(line.values) for line in lines if len(line.values)), default=1) or 1
    # A card far above everything would press the curves flat: it is left out then.
    shown = limit if limit and limit[1] < 2 * most else None
    top = max(most, shown[1] if shown else 0) * 1.05

    def x(event: float) -> float:
        return round(_LEFT + _WIDE * event / last, 1)

    def y(value: float) -> float:
        return round(_TOP + _HIGH * (1 - value / top), 1)

    right, bottom = _WIDTH - _RIGHT, _TOP + _HIGH
    parts = [_open(_WIDTH, _HEIGHT, "Memory over the events of the recording")]
    for tick in np.linspace(0, top, _TICKS).tolist():
        parts.append(_line("grid", _LEFT, y(tick), right, y(tick)))
        parts.append(_text(_LEFT - 6, y(tick) + 4, _axis(tick), "end"))
    for tick in np.linspace(0, last, _TICKS).tolist():
        parts.append(_text(x(tick), bottom + 18, f"{tick:.0f}", "middle"))
    parts.append(_text(_LEFT + _WIDE / 2, bottom + 34, "event", "middle"))
    for line in lines:
        points = " ".join(f"{x(e)},{y(v)}" for e, v in zip(line.events, line.values, strict=True))
        title = f"<title>{escape(line.name)}</title>"
        parts.append(f'<polyline class="{escape(line.kind)}" points="{points}">{title}</polyline>')
    if shown:
        parts.append(_line("limit", _LEFT, y(shown[1]), right, y(shown[1]), shown[0]))
        parts.append(_text(_LEFT + 6, y(shown[1]) - 4, shown[0], "start"))
    for name, event in marks.items():
        parts.append(_line("mark", x(event), _TOP, x(event), bottom, name))
    return "\n".join([*parts, "</svg>"])


def segment_map(found: BlockMap) -> str:
    """Return reserved memory by address, segment after segment, wrapped into rows."""
    segments, blocks = found.by_address()
    kinds = _kinds(segments, blocks)
    rows = min(_MOST_ROWS, max(1, len(segments)))
    edges = np.concatenate([[0], np.cumsum(blocks[:, 1])])
    total = int(edges[-1]) or 1
    cells = np.linspace(0, total, rows * _CELLS + 1)
    shares = np.stack([_bytes_of(kind, kinds, edges, cells) for kind in range(len(KINDS))])
    main = shares.argmax(axis=0).reshape(rows, _CELLS)
    height = rows * (_ROW + _GAP)
    label = "Segments by address at that moment; each cell shows what it holds most of"
    parts = [_open(_WIDTH, height, label)]
    wide = _WIDTH / _CELLS
    for row, shown in enumerate(main):
        parts += [
            f'<rect class="{KINDS[kind]}" x="{start * wide:g}" y="{row * (_ROW + _GAP)}" '
            f'width="{(end - start) * wide:g}" height="{_ROW}"/>'
            for kind, start, end in _runs(shown)
        ]
    if len(segments) <= _MOST_BORDERS:
        for start in np.concatenate([[0], np.cumsum(segments[:, 1])])[:-1]:
            inside, above = math.modf(start / total * rows)
            x, y = round(inside * _WIDTH, 1), int(above) * (_ROW + _GAP)
            parts.append(_line("border", x, y, x, y + _ROW))
    note = f"one row is {format_bytes(total / rows)}"
    return "\n".join([*parts, f"<desc>{note}</desc>", "</svg>"])


def over_time(events: Sequence[float], cells: Sequence[float]) -> str:
    """Return memory by address over events: a column of cells for each, lowest address below.

    `cells` are places in ``("nothing", *KINDS)``, as many for each event.
    """
    drawn = np.array(cells, np.int64).reshape(len(events), -1)
    count = drawn.shape[1]
    step, cell = _WIDE / len(events), _HIGH / count
    paths: dict[int, list[str]] = {kind: [] for kind in range(1, len(KINDS) + 1)}
    for column, kinds in enumerate(drawn):
        for kind, start, end in _runs(kinds):
            if kind:
                x, y = _LEFT + column * step, _TOP + _HIGH - end * cell
                tall = (end - start) * cell
                # A hair wider than its column: no ground shines through between two of them.
                paths[kind].append(f"M{x:.1f} {y:.1f}h{step + 0.3:.1f}v{tall:.1f}H{x:.1f}z")
    parts = [_open(_WIDTH, _HEIGHT, "Reserved memory by address over the events")]
    for kind, path in paths.items():
        if path:
            parts.append(f'<path class="{KINDS[kind - 1]}" d="{"".join(path)}"/>')
    for share in np.linspace(0, 1, _TICKS).tolist():
        event = events[round(share * (len(events) - 1))]
        parts.append(_text(_LEFT + share * _WIDE, _TOP + _HIGH + 18, f"{event:.0f}", "middle"))
    parts.append(_text(_LEFT + _WIDE / 2, _TOP + _HIGH + 34, "event", "middle"))
    parts.append(_text(_LEFT - 6, _TOP + _HIGH / 2, "address", "end"))
    return "\n".join([*parts, "</svg>"])


def _kinds(segments: NDArray[np.int64], blocks: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place in `KINDS` of each block."""
    of_segment = np.searchsorted(segments[:, 0], blocks[:, 0], side="right") - 1
    used = np.bincount(of_segment[blocks[:, 3] != FREE], minlength=len(segments))
    split = (blocks[:, 3] == FREE) & (used[of_segment] > 0)
    kinds = np.where(split, _SPLIT, blocks[:, 3])
    private = (blocks[:, 3] == FREE) & (segments[of_segment, 3] > 0)
    return np.asarray(np.where(private, _POOL, kinds), np.int64)


def _bytes_of(
    kind: int, kinds: NDArray[np.int64], edges: NDArray[np.int64], cells: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Return how many bytes of each cell are of one kind."""
    sizes = np.diff(edges)
    so_far = np.concatenate([[0], np.cumsum(np.where(kinds == kind, sizes, 0))])
    return np.diff(np.interp(cells, edges, so_far))


def _runs(kinds: NDArray[np.int64]) -> Iterator[tuple[int, int, int]]:
    """Yield the runs of equal cells: what they are, where they start and end."""
    starts = np.flatnonzero(np.concatenate([[True], kinds[1:] != kinds[:-1]])).tolist()
    return zip(kinds[starts].tolist(), starts, [*starts[1:], len(kinds)], strict=True)


def _line(kind: str, x1: float, y1: float, x2: float, y2: float, title: str = "") -> str:
    inside = f"<title>{escape(title)}</title>" if title else ""
    return f'<line class="{kind}" x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}">{inside}</line>'


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x}" y="{y}" text-anchor="{anchor}">{escape(text)}</text>'


def _open(width: int, height: int, label: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'role="img" aria-label="{escape(label)}">'
    )


def _axis(value: float) -> str:
    return f"{value / GIB:.1f} GiB" if value >= GIB or value == 0 else f"{value / MIB:.0f} MiB"
