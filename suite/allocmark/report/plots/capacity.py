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
from allocmark.schema.metrics.capacity import (
    CAPACITY_RATIO,
    RESOLUTION_BYTES,
    SMALLEST_CAPACITY_BYTES,
)
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
_COARSE = 0.05
"""Live peaks: a search that ends with a wider gap has a hollow dot, which is an upper bound."""


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
    data["failed_ratio"] = _failed(panel, data)
    workload = WORKLOAD.ordered(rows["workload"])
    lines = sorted(set(data["workload"]), key=workload.rank)
    names = [name for name in _COMPARED if name in set(data["subject"])]

    def paint(axes: Any, shown: pd.DataFrame, narrow: bool) -> None:
        middle = (len(names) - 1) / 2
        for number, (name, colour) in enumerate(colours(names).items()):
            own = shown[shown["subject"] == name]
            shift = (number - middle) * _OFFSET
            heights = [lines.index(each) + shift for each in own["workload"]]
            axes.hlines(heights, own["failed_ratio"], own["ratio"], color=colour, lw=1.2)
            coarse = (own["ratio"] - own["failed_ratio"] > _COARSE).tolist()
            for hollow in (False, True):
                some = [at for at, each in enumerate(coarse) if each is hollow]
                axes.plot(
                    own["ratio"].iloc[some],
                    [heights[at] for at in some],
                    _MARKERS[number],
                    color=colour,
                    markerfacecolor="none" if hollow else colour,
                    markersize=5,
                    label=None if hollow else str(_BFC) if name == GROWTH else name,
                )
        axes.axvline(1, color=INK, lw=1.2)
        axes.set_yticks(range(len(lines)), lines)
        axes.set_ylim(len(lines) - 0.5, -0.5)
        axes.grid(axis="y", lw=0.5)
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
            "the program needs. A hollow dot is an upper bound: the search was cut off, and its "
            "line reaches to the largest capacity in which the workload failed. Where a dot is "
            "missing, the table says why."
        ),
        section=fragmentation.TITLE,
        emulated=panel.emulated,
        # Names are no words: they stay as they are in every language.
        words=(_RATIO, _BFC, *lines),
    )


def _failed(panel: Panel, data: pd.DataFrame) -> list[float]:
    """Return beside each ratio that of the largest capacity below it that was tried and failed."""
    bytes_of = {
        (metric, str(row["workload"]), str(row["subject"])): float(row["value"])
        for metric in (SMALLEST_CAPACITY_BYTES, RESOLUTION_BYTES)
        for row in select(panel, [metric], {"subject": _COMPARED}).to_dict("records")
    }
    found = []
    for workload, subject, ratio in data[["workload", "subject", "ratio"]].itertuples(index=False):
        needed = bytes_of.get((SMALLEST_CAPACITY_BYTES, workload, subject))
        gap = bytes_of.get((RESOLUTION_BYTES, workload, subject), 0.0)
        found.append(ratio * (1 - gap / needed) if needed else ratio)
    return found
