"""Other stacks beside the page's own: what the template asks of a comparison."""

from __future__ import annotations

from collections.abc import Iterator

from allocmark.compare.model import Row
from allocmark.report.stacks import OtherStackFigure, Stacks

SIGNS = {"same": "=", "better": "▲", "worse": "▼", "changed": "≠", "unclear": "?"}
CSS = {"same": "open", "better": "holds", "worse": "fails", "changed": "partly", "unclear": "open"}
_MANYFOLD = 10.0
"""From here on a ratio says more than percents do."""


def lines(found: Stacks) -> Iterator[tuple[str, Row, list[OtherStackFigure]]]:
    """Yield each figure that is listed: its id, the row with its own value, those of others."""
    for figure_id in found.places:
        figures = [found.cells[figure_id, number] for number in range(len(found.others))]
        yield figure_id, next(one.row for one in figures if one.row is not None), figures


def means(found: Stacks) -> list[tuple[str, list[str]]]:
    """Return each group of figures with the geometric mean of its change, by stack."""
    groups: dict[str, dict[int, str]] = {}
    for at, other in enumerate(found.others):
        for mean in other.found.means if other.found else ():
            if mean.scope == "all":
                groups.setdefault(mean.group, {})[at] = change(mean.ratio)
    counted = range(len(found.others))
    return [(group, [by.get(n, "–") for n in counted]) for group, by in sorted(groups.items())]


def difference(row: Row) -> str:
    """Return by how much a row differs; nothing where that is no ratio."""
    return "" if row.ratio is None else change(row.ratio)


def interval(row: Row) -> str:
    """Return the interval of that, nothing where there is none."""
    if row.low is None or row.high is None:
        return ""
    return f"{change(row.low)} … {change(row.high)}"


def change(ratio: float) -> str:
    """Return a ratio as people read it: ``+3.1 %``, ``×12``."""
    return f"×{ratio:.3g}" if ratio >= _MANYFOLD else f"{100 * (ratio - 1):+.1f} %"
