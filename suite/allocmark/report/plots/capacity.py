"""The lead picture: the smallest capacity in which each workload completes, over its live peak."""

from __future__ import annotations

from typing import Any

import pandas as pd

from allocmark.allocators.tensorflow_gpu import GROWTH
from allocmark.allocators.torch_caching import DRIVER_POOL, EXPANDABLE, NATIVE
from allocmark.report.axes import WORKLOAD
from allocmark.report.plots.drawing import INK, Picture, colours, draw, legend
from allocmark.report.table_spec import select
from allocmark.report.tables import fragmentation
from allocmark.schema.metrics.capacity import CAPACITY_RATIO
from allocmark.store.panel import Panel
from allocmark.system.message import Message

_COMPARED = (NATIVE, EXPANDABLE, "torch-split64", DRIVER_POOL, GROWTH)
"""The settings that people use, and TensorFlow's allocator."""
_BFC = Message("{name} (BFC)", name=GROWTH)
_MARKERS = ("o", "D", "s", "^", "v")
"""Beside the colours: for who cannot tell these apart."""
_OFFSET = 0.15
"""Of a workload's line: dots of the same value stand below each other."""
_RATIO = Message("smallest capacity / live peak")


def capacity(panel: Panel) -> Picture | None:
    """Draw a dot for each workload and setting; None where no capacity was searched."""
    rows = select(panel, [CAPACITY_RATIO], {"subject": _COMPARED})
    rows = rows[rows["value"].notna()]
    if rows.empty:
        return None
    data = pd.DataFrame(
        {
            "workload": rows["workload"].astype(str),
            "subject": rows["subject"].astype(str),
            "ratio": rows["value"],
        }
    ).reset_index(drop=True)
    workload = WORKLOAD.ordered(rows["workload"])
    lines = sorted(set(data["workload"]), key=workload.rank)
    names = [name for name in _COMPARED if name in set(data["subject"])]

    def paint(axes: Any, shown: pd.DataFrame, narrow: bool) -> None:
        for place, name in enumerate(lines):
            own = shown.loc[shown["workload"] == name, "ratio"]
            axes.plot((own.min(), own.max()), (place, place), color=INK, lw=0.8, zorder=1)
        middle = (len(names) - 1) / 2
        for number, (name, colour) in enumerate(colours(names).items()):
            own = shown[shown["subject"] == name]
            shift = (number - middle) * _OFFSET
            heights = [lines.index(each) + shift for each in own["workload"]]
            axes.plot(
                own["ratio"],
                heights,
                _MARKERS[number],
                color=colour,
                markersize=5,
                label=str(_BFC) if name == GROWTH else name,
            )
        axes.axvline(1, color=INK, lw=1.2)
        axes.set_yticks(range(len(lines)), lines)
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.grid(axis="y", visible=False)
        axes.set(xlabel=str(_RATIO))
        legend(axes, narrow)

    height = 1.3 + 0.34 * len(lines)
    return draw(
        "capacity",
        Message("How much more memory than the program needs, by setting"),
        data,
        paint,
        (8.0, height),
        phone_height=height + 1.0,
        about=Message(
            "The smallest capacity in which a workload completes, over its live peak: 1 is what "
            "the program needs. Where a dot is missing, the table says why."
        ),
        section=fragmentation.TITLE,
        emulated=panel.emulated,
        # Names are no words: they stay as they are in every language.
        words=(_RATIO, _BFC, *lines),
    )
