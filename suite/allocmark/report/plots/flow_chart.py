"""The flow chart of section 3.4: boxes from the request down to the copy, figures beside them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from allocmark.allocators.torch_caching import NATIVE
from allocmark.claims.core.claim import Evidence
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.request_steps import Step, steps
from allocmark.report.plots.drawing import INK, PALETTE, Picture, draw
from allocmark.report.tables import flow
from allocmark.schema.metrics import request_path
from allocmark.schema.metrics.fragmentation import DRIVER_ALLOCS
from allocmark.store.panel import Panel
from allocmark.system.message import Message, Text

ABOUT = Message(
    "torch's order, from top to bottom. Where a block is found (green), it is cut if much is left, "
    "and the data is copied; the steps between are left out. Beside a box: which share of all "
    "requests of the workloads comes to it, and what such a request of 32 MiB costs."
)
TITLE = Message("From .cuda() to memory")
START = Message(".cuda() asks for bytes")
NOT_MEASURED = Message("not measured")
_FOUND = "split"
"""The step that follows where a block is found."""
_WIDTH, _HEIGHT, _NARROW_HEIGHT, _LEVEL = 5.2, 0.6, 0.78, 1.0
_LABEL_X = _WIDTH / 2 + 0.15
_FOUND_X = 8.4


def flow_chart(panel: Panel) -> Picture | None:
    """Draw the way of a request, None where nothing was measured of torch's allocator."""
    evidence = EvidenceCollector(panel)
    metrics = (request_path.BRANCH_REQUESTS, DRIVER_ALLOCS)
    if not any(evidence.rows(metric, subject=NATIVE) for metric in metrics):
        return None
    shown = steps(evidence)
    data = pd.DataFrame(
        {
            "step": [one.name for one in shown],
            "what": [str(one.words) for one in shown],
            "share": [_text(one.shares[0]) for one in shown],
            "share in 1.1 live peaks": [_text(one.shares[1]) for one in shown],
            "cost": [_text(one.cost) for one in shown],
            "size": [str(one.size) for one in shown],
        }
    )

    def paint(axes: Any, _: pd.DataFrame, narrow: bool) -> None:
        _paint(axes, shown, narrow)

    return draw(
        "flow",
        TITLE,
        data,
        paint,
        (9.0, 11.5),
        phone_height=11.0,
        about=ABOUT,
        section=flow.TITLE,
        emulated=panel.emulated,
        words=(START, *(one.words for one in shown), *(t for one in shown for t in _labels(one))),
    )


def _text(found: Evidence | Text) -> str:
    return str(found.cell.text) if isinstance(found, Evidence) else "n/a"


def _labels(step: Step) -> tuple[Text, Text]:
    """Return what stands beside a box: the share of requests, and the cost."""
    free, short = step.shares
    cost: Text = ""
    if isinstance(step.cost, Evidence):
        taken = step.cost.marked
        cost = Message("takes {text}", text=taken)
        if step.size:
            cost = Message("takes {text} for {size}", text=taken, size=step.size)
    if isinstance(free, Evidence) and isinstance(short, Evidence):
        share: Text = Message(
            "{first} of requests; {second} in 1.1 live peaks",
            first=free.cell.text,
            second=short.cell.text,
        )
        return share, cost
    return (cost, "") if cost else (NOT_MEASURED, "")


def _paint(axes: Any, shown: tuple[Step, ...], narrow: bool) -> None:
    """Draw boxes from top to bottom; on a phone figures stand in them, else beside them."""
    found_x = _WIDTH / 2 + 0.4 if narrow else _FOUND_X
    height = _NARROW_HEIGHT if narrow else _HEIGHT
    axes.axis("off")
    axes.set(
        xlim=(-_WIDTH / 2 - 0.2, found_x + 0.3), ylim=(-_LEVEL * (len(shown) + 0.5), _LEVEL / 2)
    )
    _box(axes, 0.0, height, str(START), PALETTE[0])
    levels = {step.name: -_LEVEL * number for number, step in enumerate(shown, 1)}
    green = PALETTE[2]
    for step in shown:
        level = levels[step.name]
        after = level <= levels[_FOUND]
        if step.name != _FOUND:  # It does not follow the error above it.
            start, end = level + _LEVEL - height / 2, level + height / 2
            _arrow(axes, (0.0, start), (0.0, end), green if after else INK)
        colour = PALETTE[1] if step.name == "oom" else green if after else PALETTE[0]
        first, second = map(str, _labels(step))
        if narrow:
            _box(axes, level, height, str(step.words), colour, 0.24 if second else 0.13)
            places = (-0.02, -0.25) if second else (-0.15, 0.0)
            for text, below in zip((first, second), places, strict=True):
                axes.text(0.0, level + below, text, ha="center", va="center", fontsize=7)
        else:
            _box(axes, level, height, str(step.words), colour)
            axes.text(_LABEL_X, level + 0.08, first, va="bottom", fontsize=8.5)
            axes.text(_LABEL_X, level - 0.08, second, va="top", fontsize=8.5)
        if step.finds:
            axes.plot((_WIDTH / 2, found_x), (level, level), color=green, lw=1.2)
    top = max(levels[step.name] for step in shown if step.finds)
    axes.plot((found_x, found_x), (top, levels[_FOUND]), color=green, lw=1.2)
    _arrow(axes, (found_x, levels[_FOUND]), (_WIDTH / 2, levels[_FOUND]), green)


def _box(
    axes: Any, y: float, height: float, text: str, colour: str, text_above: float = 0.0
) -> None:
    from matplotlib.patches import FancyBboxPatch

    style = "round,pad=0.02,rounding_size=0.12"
    corner = (-_WIDTH / 2, y - height / 2)
    axes.add_patch(
        FancyBboxPatch(corner, _WIDTH, height, boxstyle=style, fc="none", ec=colour, lw=1.4)
    )
    axes.text(0.0, y + text_above, text, ha="center", va="center", fontsize=8.5)


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2})
