"""The flow chart of section 3.4: boxes from the request down to the error, figures beside them."""

from __future__ import annotations

from typing import Any

import pandas as pd

from allocmark.report.claims.case import Case
from allocmark.report.claims.claim import Evidence
from allocmark.report.claims.flow import Branch, branches
from allocmark.report.claims.text import Text
from allocmark.report.panel import Panel
from allocmark.report.pictures import INK, PALETTE, Picture, draw

TITLE = Text("From .cuda() to memory", "从 .cuda() 到显存")
START, SERVED = Text(".cuda() asks for bytes", ".cuda() 请求字节"), Text("served", "得到显存")
_NO, _YES = Text("no", "否"), Text("yes", "是")
_ENDS = ("hit", "miss", "retry")
"""Steps after which a request may be served."""
_WIDTH, _HEIGHT, _STEP = 4.4, 0.6, 1.1
_SERVED_X = 8.2


def texts() -> list[Text]:
    """Return the chart's own words in both languages; its steps are the table's."""
    return [TITLE, START, SERVED, _NO, _YES]


def flow_chart(panel: Panel) -> Picture | None:
    """Draw the way of a request, None where nothing of it was measured."""
    shown = branches(Case(panel))
    if not any(isinstance(one.taken, Evidence) for one in shown):
        return None
    data = pd.DataFrame(
        {
            "step": [one.name for one in shown],
            "what": [one.words.en for one in shown],
            "cost": [_text(one.cost) for one in shown],
            "taken": [_text(one.taken) for one in shown],
        }
    )

    def paint(axes: Any, _: pd.DataFrame) -> None:
        _paint(axes, shown)

    return draw("flow", TITLE.en, data, paint, (9.0, 7.0))


def _text(told: Evidence | Text) -> str:
    return told.cell.text if isinstance(told, Evidence) else "n/a"


def _paint(axes: Any, shown: tuple[Branch, ...]) -> None:
    axes.axis("off")
    axes.set(xlim=(-_WIDTH, _SERVED_X + 1.6), ylim=(-_STEP * (len(shown) + 0.5), _STEP))
    _box(axes, 0.0, 0.0, START.en, PALETTE[0])
    for number, branch in enumerate(shown, 1):
        level = -_STEP * number
        _arrow(axes, (0.0, level + _STEP - _HEIGHT / 2), (0.0, level + _HEIGHT / 2))
        colour = PALETTE[1] if branch.name == "oom" else PALETTE[0]
        _box(axes, 0.0, level, branch.words.en, colour)
        figures = [_text(one) for one in (branch.cost, branch.taken)]
        axes.text(_WIDTH / 2 + 0.15, level + 0.14, figures[0], va="bottom", fontsize=8)
        axes.text(_WIDTH / 2 + 0.15, level - 0.14, figures[1], va="top", fontsize=8)
        if branch.name in _ENDS:
            _arrow(axes, (_WIDTH / 2, level), (_SERVED_X - 0.8, -_STEP), PALETTE[2])
    _box(axes, _SERVED_X, -_STEP, SERVED.en, PALETTE[2], 1.6)


def _box(axes: Any, x: float, y: float, text: str, colour: str, width: float = _WIDTH) -> None:
    from matplotlib.patches import FancyBboxPatch

    corner = (x - width / 2, y - _HEIGHT / 2)
    style = "round,pad=0.02,rounding_size=0.12"
    axes.add_patch(
        FancyBboxPatch(corner, width, _HEIGHT, boxstyle=style, fc="none", ec=colour, lw=1.4)
    )
    axes.text(x, y, text, ha="center", va="center", fontsize=8.5)


def _arrow(
    axes: Any, start: tuple[float, float], end: tuple[float, float], colour: str = INK
) -> None:
    axes.annotate("", end, start, arrowprops={"arrowstyle": "->", "color": colour, "lw": 1.2})
