"""Pictures of bytes: contexts by stage, TensorFlow's modes by point, pools by streams."""

from __future__ import annotations

from typing import Any

import pandas as pd

from allocmark.report.plots.drawing import Picture, colours, draw, legend, name_lines
from allocmark.report.table_spec import select
from allocmark.report.tables import context as context_tables
from allocmark.report.tables import streams as streams_tables
from allocmark.report.tables import tensorflow_policy
from allocmark.report.tables.context import STAGE, WHO
from allocmark.schema.device_meters import NVML_DEVICE, NVML_PROCESS
from allocmark.schema.metric import Metric
from allocmark.schema.metrics.context import LAZY, STAGE_BYTES
from allocmark.schema.metrics.streams import ONE_SHOT, RESERVED_BYTES
from allocmark.schema.metrics.tensorflow_policy import HELD_BYTES
from allocmark.store.grid import SUBJECT
from allocmark.store.panel import Panel
from allocmark.system.message import Joined, Message, Recorded
from allocmark.system.units import GIB, MIB, format_bytes

_METERS = (NVML_PROCESS, NVML_DEVICE)
"""By which bytes are shown: the first that has read any."""
_MIB_BY = {
    NVML_PROCESS: Message("MiB by NVML, of the process"),
    NVML_DEVICE: Message("MiB by NVML, of the device"),
}
_GIB_BY = {
    NVML_PROCESS: Message("GiB by NVML, of the process"),
    NVML_DEVICE: Message("GiB by NVML, of the device"),
}
_STREAMS, _RESERVED = Message("streams"), Message("MiB reserved")
STREAM_BYTES = 2 * MIB


def context(panel: Panel) -> Picture | None:
    """Draw what each stage adds to the memory of a process, stage upon stage."""
    rows, meter = _metered(panel, STAGE_BYTES)
    rows = rows[rows["value"] > 0]
    if rows.empty:
        return None
    pairs = dict.fromkeys(zip(rows["subject"], rows["module_loading"], strict=True))
    names = sorted(pairs, key=lambda pair: (WHO.rank(pair[0]), pair[1] != LAZY))
    stages = sorted(map(str, rows["stage"].unique()), key=STAGE.rank)
    data = pd.DataFrame(
        {
            "context of": rows["subject"].astype(str),
            "module loading": rows["module_loading"].astype(str),
            "stage": rows["stage"].astype(str),
            "bytes": rows["value"],
        }
    )
    labels = [Joined(" ", (Recorded(subject), loading)) for subject, loading in names]
    added = rows.groupby(["subject", "module_loading", "stage"], observed=True)["value"].sum()

    def paint(axes: Any, _: pd.DataFrame, narrow: bool) -> None:
        left = [0.0] * len(names)
        for stage, colour in colours(stages).items():
            widths = [added.get((*name, stage), 0.0) / MIB for name in names]
            axes.barh([*map(str, labels)], widths, left=left, color=colour, label=stage)
            left = [start + width for start, width in zip(left, widths, strict=True)]
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set(xlabel=str(_MIB_BY[meter]))
        legend(axes, narrow)

    height = 1.2 + 0.32 * len(names)
    return draw(
        "context",
        Message("Device memory of a context, stage upon stage"),
        data,
        paint,
        (9.0, height),
        phone_height=height + 1.0,
        about=Message(
            "What the start of a process adds, from its first call to its first matrix product."
        ),
        section=context_tables.TITLE,
        emulated=panel.emulated,
        words=(_MIB_BY[meter], *labels),
    )


def modes(panel: Panel) -> Picture | None:
    """Draw what each mode holds at the same points of one program."""
    rows, meter = _metered(panel, HELD_BYTES)
    rows = rows[rows["value"] > 0]
    if rows.empty:
        return None
    data = pd.DataFrame(
        {
            "mode": rows["subject"].astype(str),
            "point": rows["point"].astype(str),
            "bytes": rows["value"],
        }
    )
    points = list(dict.fromkeys(data["point"]))
    names = list(dict.fromkeys(data["mode"]))

    def paint(axes: Any, shown: pd.DataFrame, narrow: bool) -> None:
        from matplotlib.ticker import LogLocator

        for name, colour in colours(names).items():
            own = shown[shown["mode"] == name]
            places = [points.index(point) for point in own["point"]]
            axes.plot(places, own["bytes"] / GIB, "o-", color=colour, label=name)
        axes.set_xticks(range(len(points)), points, rotation=20, ha="right")
        axes.set(yscale="log", ylabel=str(_GIB_BY[meter]))
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.minorticks_off()
        legend(axes, narrow)

    return draw(
        "modes",
        Message("Device memory at each point of one program, by mode"),
        data,
        paint,
        (9.0, 4.5),
        phone_height=4.4,
        about=Message("Tensors are added up to the live peak, then all are dropped."),
        section=tensorflow_policy.TITLE,
        emulated=panel.emulated,
        words=[_GIB_BY[meter]],
    )


def streams(panel: Panel) -> Picture | None:
    """Draw what stays reserved when blocks of one size are used on more streams, one by one."""
    rows = select(panel, [RESERVED_BYTES], {"use": ONE_SHOT})
    rows = rows[rows["value"].notna()]
    if rows.empty:
        return None
    # The size of the verdict on pools by stream, where it was measured.
    size = STREAM_BYTES if (rows["bytes"] == STREAM_BYTES).any() else rows["bytes"].min()
    rows = rows[rows["bytes"] == size].sort_values(["subject", "streams"])
    data = pd.DataFrame(
        {"subject": rows["subject"].astype(str), "streams": rows["streams"], "bytes": rows["value"]}
    ).reset_index(drop=True)

    def paint(axes: Any, shown: pd.DataFrame, narrow: bool) -> None:
        alike: dict[tuple[tuple[float, float], ...], list[str]] = {}
        for name in sorted(set(shown["subject"]), key=SUBJECT.rank):
            own = shown[shown["subject"] == name]
            line = tuple(zip(own["streams"], own["bytes"] / MIB, strict=True))
            alike.setdefault(line, []).append(name)
        names = {"\n".join(together): line for line, together in alike.items()}
        counts = sorted(set(shown["streams"]))
        axes.set_xscale("log", base=2)
        axes.set_xticks(counts, [f"{count:g}" for count in counts])
        axes.minorticks_off()
        axes.set(xlabel=str(_STREAMS), ylabel=str(_RESERVED))
        ends = []
        for name, colour in colours(list(names)).items():
            axes.plot(*zip(*names[name], strict=True), "o-", color=colour, markersize=4)
            ends.append((name, colour, *names[name][-1]))
        axes.set_ylim(bottom=0)
        name_lines(axes, ends, narrow)

    return draw(
        "streams",
        Message(
            "Reserved when all is freed: one block of {size} on each of several streams",
            size=format_bytes(size),
        ),
        data,
        paint,
        (9.0, 4.0),
        phone_height=4.6,
        about=Message("Rising: blocks freed on one stream are not reused by others."),
        section=streams_tables.TITLE,
        emulated=panel.emulated,
        words=(_STREAMS, _RESERVED),
    )


def _metered(panel: Panel, metric: Metric) -> tuple[pd.DataFrame, str]:
    """Return the rows by the first meter that has read any, and that meter."""
    rows = select(panel, [metric], {})
    rows = rows[rows["value"].notna()]
    for meter in _METERS:
        found = rows[rows["axis_meter"] == meter] if "axis_meter" in rows else rows.iloc[:0]
        if len(found):
            return found, meter
    return rows.iloc[:0], _METERS[0]
