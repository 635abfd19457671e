"""The picture of reserved against requested memory over one workload."""

from __future__ import annotations

from typing import Any

import pandas as pd

from allocmark import allocators
from allocmark.allocators import tensorflow_gpu
from allocmark.allocators.torch_caching import DRIVER_POOL, EXPANDABLE, NATIVE
from allocmark.report.plots.drawing import INK, PALETTE, Picture, draw, legend
from allocmark.report.table_spec import select
from allocmark.report.tables import fragmentation
from allocmark.schema.metrics import fragmentation as metrics
from allocmark.store.grid import SUBJECT
from allocmark.store.panel import Panel
from allocmark.system.message import Message, Text, sentences
from allocmark.system.units import GIB
from allocmark.workloads import catalog

_FIRST = (
    *(NATIVE, tensorflow_gpu.GROWTH, EXPANDABLE, DRIVER_POOL, "cuda-malloc"),
    *("cuda-malloc-async-max", "cuda-malloc-async-0"),
)
"""Those that people compare; others follow in the order of tables."""
_FIXED = allocators.names(fixed_region=True)
"""They hold one region throughout, whatever is requested: nothing to draw against it."""
_LOOKS: tuple[tuple[float, Any], ...] = (
    (2.5, "-"),
    (2.5, (0, (6, 2))),
    (4.5, "-"),
    (1.5, (0, (4, 1.5, 1, 1.5))),
    (1.0, "-"),
)
"""Width in points and dashes of each line, so that one on another hides neither."""


_REQUESTED, _EVENT = Message("requested"), Message("allocation or free event")
_RESERVED = Message("GiB reserved")


def memory(panel: Panel) -> Picture | None:
    """Draw reserved against requested bytes over the workload in which those shown differ most."""
    rows = select(panel, [metrics.PEAK_RESERVED_BYTES], {})
    rows = rows[(rows["value"] > 0) & ~rows["subject"].isin(_FIXED)]
    names = sorted(map(str, rows["subject"].unique()), key=_rank)[: len(_LOOKS)]
    rows = rows[rows["subject"].isin(names)]
    if rows.empty:
        return None
    peaks = rows.groupby("workload", observed=True)["value"].agg(["min", "max"])
    workload = str((peaks["max"] / peaks["min"]).sort_index().idxmax())
    data = _curves(panel, workload, names)
    if data is None:
        return None

    def paint(axes: Any, shown: pd.DataFrame, narrow: bool) -> None:
        first = shown[shown["subject"] == shown["subject"].iloc[0]]
        requested = first["requested"] / GIB
        axes.fill_between(
            first["event"], requested, color=INK, alpha=0.35, label=str(_REQUESTED), lw=0
        )
        for name, colour, (width, dashes) in zip(names, PALETTE, _LOOKS, strict=False):
            own = shown[shown["subject"] == name]
            if len(own):
                # Thin above thick.
                axes.plot(
                    own["event"],
                    own["reserved"] / GIB,
                    color=colour,
                    linestyle=dashes,
                    linewidth=width,
                    zorder=2 + 1 / width,
                    label=name,
                )
        axes.set(xlabel=str(_EVENT), ylabel=str(_RESERVED))
        legend(axes, narrow, handlelength=3)

    longest = max(len(name) for name in names)
    about: Text = Message(
        "Grey: what the program holds. Lines: what each allocator holds from the driver for it."
    )
    if description := catalog.descriptions().get(workload):
        about = sentences(about, Message("The workload: {what}.", what=description))
    return draw(
        "memory",
        Message("Reserved vs requested memory, workload {name}", name=workload),
        data,
        paint,
        (8.0 + min(20.0, 0.08 * max(0, longest - 20)), 3.9),
        phone_height=4.0,
        about=about,
        section=fragmentation.TITLE,
        emulated=panel.emulated,
        words=(_REQUESTED, _EVENT, _RESERVED),
    )


def _rank(name: str) -> Any:
    return (_FIRST.index(name) if name in _FIRST else len(_FIRST), SUBJECT.rank(name))


def _curves(panel: Panel, workload: str, names: list[str]) -> pd.DataFrame | None:
    """Return event, requested and reserved of each subject, None where none has a curve."""
    frames: dict[str, pd.DataFrame] = {}
    for index, source in panel.sources(metrics.EXPERIMENT):
        subject = source.document.subject
        if subject not in names:
            continue
        for series in panel.store.series(index):
            columns = series.columns
            is_complete = {"requested", "reserved"} <= set(columns)
            if is_complete and series.axes.get("workload") == workload:
                frame = pd.DataFrame({k: columns[k] for k in ("event", "requested", "reserved")})
                frame.insert(0, "subject", subject)
                frames[subject] = frame
    ordered = [frames[name] for name in names if name in frames]
    return pd.concat(ordered, ignore_index=True) if ordered else None
