"""The flow chart of section 3.4: boxes from the request down to the error, figures beside them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from allocmark.claims.core.claim import Evidence
from allocmark.claims.core.evidence_collector import EvidenceCollector
from allocmark.claims.request_flow import Branch, branches
from allocmark.report.pictures import INK, PALETTE, Picture, draw
from allocmark.report.tables import flow
from allocmark.store.panel import Panel
from allocmark.system.message import Message, Text

ABOUT = Message(
    "Each step is tried when the one above it did not do; beside it what it costs and how often it "
    "is taken."
)
TITLE = Message("From .cuda() to memory")
START, SERVED = Message(".cuda() asks for bytes"), Message("served")
_SERVES = ("hit", "split", "miss", "retry")
"""Steps after which a request may be served."""
_WIDTH, _HEIGHT, _STEP = 4.4, 0.6, 1.1
_LABEL_X = _WIDTH / 2 + 0.15
_SERVED_X, _SERVED_WIDTH = 9.0, 1.3


def flow_chart(panel: Panel) -> Picture | None:
    """Draw the way of a request, None where nothing of it was measured."""
    shown = branches(EvidenceCollector(panel))
    if not any(isinstance(one.taken, Evidence) for one in shown):
        return None
    data = pd.DataFrame(
        {
            "step": [one.name for one in shown],
            "what": [str(one.words) for one in shown],
            "cost": [_text(one.cost) for one in shown],
            "taken": [_text(one.taken) for one in shown],
        }
    )

    def paint(axes: Any, _: pd.DataFrame) -> None:
        _paint(axes, shown)

    labels = [_label(found) for one in shown for found in (one.cost, one.taken)]
    return draw(
        "flow",
        TITLE,
        data,
        paint,
        (9.0, 8.0),
        about=ABOUT,
        section=flow.TITLE,
        emulated=panel.emulated,
        words=(START, SERVED, *(one.words for one in shown), *labels),
    )


def _text(found: Evidence | Text) -> str:
    return str(found.cell.text) if isinstance(found, Evidence) else "n/a"


def _label(found: Evidence | Text) -> Text:
    """Return a figure with what it is, as the table says it; nothing where there is none."""
    if not isinstance(found, Evidence):
        return ""
    text = Message("{what}: {text}", what=found.what, text=found.cell.text)
    return Message("{text} (not settled)", text=text) if found.cell.unsettled else text


def _paint(axes: Any, shown: tuple[Branch, ...]) -> None:
    axes.axis("off")
    axes.set(
        xlim=(-_WIDTH / 2 - 0.2, _SERVED_X + _SERVED_WIDTH),
        ylim=(-_STEP * (len(shown) + 0.5), _STEP / 2),
    )
    _box(axes, (0.0, 0.0), (_WIDTH, _HEIGHT), str(START), PALETTE[0])
    serving = [n for n, branch in enumerate(shown, 1) if branch.name in _SERVES]
    for number, branch in enumerate(shown, 1):
        level = -_STEP * number
        _arrow(axes, (0.0, level + _STEP - _HEIGHT / 2), (0.0, level + _HEIGHT / 2), INK)
        colour = PALETTE[1] if branch.name == "oom" else PALETTE[0]
        _box(axes, (0.0, level), (_WIDTH, _HEIGHT), str(branch.words), colour)
        axes.text(_LABEL_X, level + 0.08, str(_label(branch.cost)), va="bottom", fontsize=7.5)
        axes.text(_LABEL_X, level - 0.08, str(_label(branch.taken)), va="top", fontsize=7.5)
        if number in serving:
            end = _SERVED_X - _SERVED_WIDTH / 2
            _arrow(axes, (_WIDTH / 2, level), (end, level), PALETTE[2])
    tall = _STEP * (serving[-1] - serving[0]) + _HEIGHT
    middle = -_STEP * (serving[0] + serving[-1]) / 2
    _box(axes, (_SERVED_X, middle), (_SERVED_WIDTH, tall), str(SERVED), PALETTE[2])


def _box(
    axes: Any, middle: tuple[float, float], size: tuple[float, float], text: str, colour: str
) -> None:
    from matplotlib.patches import FancyBboxPatch

    (x, y), (width, height) = middle, size
    style = "round,pad=0.02,rounding_size=0.12"
    corner = (x - width / 2, y - height / 2)
    axes.add_patch(
        FancyBboxPatch(corner, width, height, boxstyle=style, fc="none", ec=colour, lw=1.4)
    )
    axes.text(x, y, text, ha="center", va="center", fontsize=8.5)


def _arrow(axes: Any, start: tuple[float, float], end: tuple[float, float], colour: str) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2})
