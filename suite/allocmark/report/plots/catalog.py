"""The pictures: what is drawn, from which rows. Each comes with the data it shows."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from allocmark.allocators.tensorflow_gpu import GREEDY, LIMIT
from allocmark.report.axes import WORKLOAD
from allocmark.report.plots import bytes_held, capacity, memory
from allocmark.report.plots.drawing import Picture, colours, draw, label_ends, name_lines
from allocmark.report.plots.flow_chart import flow_chart
from allocmark.report.table_spec import select
from allocmark.report.tables import fragmentation as fragmentation_tables
from allocmark.report.tables import latency as latency_tables
from allocmark.schema.metrics import latency as metrics
from allocmark.schema.metrics.fragmentation import WASTE_RATIO
from allocmark.store.grid import SUBJECT
from allocmark.store.number_text import format_value
from allocmark.store.panel import Panel
from allocmark.system.message import Message
from allocmark.system.units import GIB, KIB, MIB, format_bytes

_PANELS = {
    metrics.HIT: Message("hit: a block that fits is cached"),
    metrics.MISS: Message("miss: cudaMalloc is called"),
}
_DRAWN = ("cuda-malloc", "torch-native", "torch-expandable", "torch-async", "tf-growth")
"""As many lines as can be told apart; the tables have all."""
_PAIRS = {
    "call": metrics.PAIR,
    "wait": metrics.HOST,
    "level": metrics.ALLOCATOR,
    "path": (*_PANELS,),
}
_SIZES = (KIB, 32 * KIB, MIB, 32 * MIB, GIB, 32 * GIB)
_SIZE, _PAIR = Message("size"), Message("median of a pair")
_WASTE = Message("waste, % of peak reserved")


def pictures(panel: Panel) -> list[Picture]:
    """Return the pictures that the results of a panel suffice for."""
    made = [
        capacity.capacity(panel),
        latency(panel),
        waste(panel),
        memory.memory(panel),
        flow_chart(panel),
    ]
    made += [bytes_held.context(panel), bytes_held.streams(panel), bytes_held.modes(panel)]
    return [picture for picture in made if picture is not None]


def latency(panel: Panel) -> Picture | None:
    """Draw the median time of an allocation and its free over size: cached, and not."""
    rows = select(panel, [metrics.CALL_NS], _PAIRS)
    rows = rows[rows["value"].notna()]
    if rows.empty:
        return None
    present = _ordered(rows["subject"])
    names = [name for name in _DRAWN if name in present] or present[: len(_DRAWN)]
    rows = rows[rows["subject"].isin(names)]
    data = _data(rows, ["subject", "path", "bytes", "value", "low", "high", "n"])

    def paint(panels: Any, shown: pd.DataFrame, narrow: bool) -> None:
        named: dict[str, tuple[str, str, float, float]] = {}
        for axes, (path, title) in zip(panels, _PANELS.items(), strict=True):
            axes.set(xscale="log", yscale="log", xlabel=str(_SIZE), title=str(title))
            ends = []
            for name, colour in colours(names).items():
                own = shown[(shown["subject"] == name) & (shown["path"] == path)]
                own = own.sort_values("bytes")
                if len(own):
                    axes.plot(own["bytes"], own["value"], "o-", color=colour, markersize=3)
                    ends.append((name, colour, own["bytes"].iloc[-1], own["value"].iloc[-1]))
            axes.minorticks_off()  # Hundreds of them, each with a text to be laid out.
            axes.yaxis.set_major_formatter(lambda value, _: format_value(value, "ns"))
            if ends:
                _size_ticks(axes, 3 if narrow else 1)
                _whole_decades(axes)
                if not narrow:
                    label_ends(axes, ends)
                named |= {end[0]: end for end in ends}
        panels[0].set(ylabel=str(_PAIR))
        if narrow:
            name_lines(panels[0], [named[name] for name in names if name in named], narrow)

    return draw(
        "latency",
        Message("Alloc and free over size, by path"),
        data,
        paint,
        (11.0, 4.5),
        phone_height=6.6,
        about=Message(
            "Left: cache hit. Right: cache miss, cudaMalloc is called. The axes differ; the tables "
            "have every allocator."
        ),
        section=latency_tables.TITLE,
        emulated=panel.emulated,
        words=(_SIZE, _PAIR, *_PANELS.values()),
        panels=2,
    )


def waste(panel: Panel) -> Picture | None:
    """Draw the share of reserved memory that was not allocated at the peak."""
    rows = select(panel, [WASTE_RATIO], {})
    # A region of a size that the suite has set says nothing of the allocator.
    rows = rows[rows["value"].notna() & ~rows["subject"].isin([GREEDY, LIMIT])]
    if rows.empty:
        return None
    data = _data(rows, ["subject", "workload", "value"])

    # The table's order, from which a reader comes.
    workload = WORKLOAD.ordered(rows["workload"])

    def paint(axes: Any, shown: pd.DataFrame, narrow: bool) -> None:
        import seaborn

        square = shown.pivot(index="subject", columns="workload", values="value") * 100
        seaborn.heatmap(
            square.loc[_ordered(shown["subject"]), sorted(square.columns, key=workload.rank)],
            annot=True,
            fmt=".0f",
            cmap="cividis",
            vmin=0,
            vmax=100,
            linewidths=0 if narrow else 1,
            annot_kws={"size": 6.5} if narrow else None,
            cbar=not narrow,
            cbar_kws={"label": str(_WASTE)},
            ax=axes,
        )
        axes.grid(False)
        axes.set(xlabel="", ylabel="")
        axes.tick_params(labelsize=7 if narrow else 10)
        turned = 90 if narrow else 35
        axes.set_xticks(axes.get_xticks(), axes.get_xticklabels(), rotation=turned, ha="right")
        if narrow:
            axes.tick_params(axis="x", rotation=90)
            for text in axes.get_xticklabels():
                text.set(ha="center")

    height = 2.5 + 0.3 * data["subject"].nunique() + _room(data["workload"])
    size = (9.0 + _room(data["subject"]), height)
    return draw(
        "waste",
        Message("Waste by workload and allocator"),
        data,
        paint,
        size,
        phone_height=height - 0.6,
        about=Message(
            "Reserved but not allocated at the peak (%), cache included: lower is better. Empty: "
            "not measured."
        ),
        section=fragmentation_tables.TITLE,
        emulated=panel.emulated,
        words=(_WASTE, *sorted(set(data["workload"]))),
    )


def _data(rows: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
    """Return plain columns, in an order that does not depend on the files'."""
    data = pd.DataFrame(
        {
            name: rows[name] if rows[name].dtype.kind == "f" else rows[name].astype(str)
            for name in columns
            if name in rows
        }
    )
    keys = [name for name in columns if name in data and name not in ("value", "low", "high", "n")]
    return data.sort_values(keys, ignore_index=True)


def _room(names: pd.Series) -> float:
    """Return the inches that long names need beyond usual ones."""
    return min(20.0, 0.08 * max(0, int(names.str.len().max()) - 20))


def _ordered(names: pd.Series) -> list[str]:
    return sorted(map(str, names.unique()), key=SUBJECT.rank)


def _size_ticks(axes: Any, every: int) -> None:
    low, high = axes.get_xlim()
    ticks = [t for t in _SIZES[::every] if low <= t <= high]
    axes.set_xticks(ticks, [format_bytes(tick) for tick in ticks], minor=False)


def _whole_decades(axes: Any) -> None:
    low, high = axes.get_ylim()
    axes.set_ylim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high)))
