"""What every picture shares: the look, and SVG that repeats to the byte."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from pandas.api.types import is_numeric_dtype

from allocmark.store.escape import csv_text
from allocmark.system.message import Message, Text

# Okabe and Ito's palette, told apart by colour-blind people, less its black and yellow, which
# vanish on a dark or a light page.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#8C6D31", "#7F7F7F")
_LABEL_POINTS = 10.0
"""What lines of labels at the ends of lines lie apart."""
INK = "#808080"
"""Mid grey: at least 3.9 to 1 against a white page and a black one."""
_STYLE: dict[str, Any] = {
    "svg.hashsalt": "allocmark",
    "svg.fonttype": "none",
    "text.parse_math": False,  # A name with dollar signs is a name.
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "axes.titlecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "grid.color": INK,
    "grid.alpha": 0.25,
    "axes.grid": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.facecolor": "none",
    "figure.facecolor": "none",
    "legend.frameon": False,
    "savefig.transparent": True,
}


_PHONE_WIDTH = 4.2
"""Inches: as wide as a phone shows it, so that its text keeps its size."""
Paint = Callable[[Any, pd.DataFrame, bool], None]
"""Draws data on axes; the last argument says whether for a narrow screen."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG and the data it shows; `about` says how to read it.

    `section` is the title of that to which it belongs. `phone_svg` is the same drawn for a narrow
    screen: smaller, its legend below. `words` are texts of the SVG, which has them in English; what
    else stands in it is names, numbers and what the record holds.
    """

    id: str
    title: Text
    svg: str
    phone_svg: str
    csv: str
    about: Text
    section: Text
    words: tuple[Text, ...] = ()


def draw(
    name: str,
    title: Text,
    data: pd.DataFrame,
    paint: Paint,
    size: tuple[float, float],
    *,
    phone_height: float,
    about: Text,
    section: Text,
    emulated: bool,
    words: Iterable[Text] = (),
    panels: int = 1,
) -> Picture:
    """Return the picture that `paint` makes of `data` on one pair of axes, or on several.

    `size` and `phone_height` are in inches.
    """
    if emulated:
        # A picture that is copied away must still say where it is from.
        title = Message("{text} (emulated GPU)", text=title)
    svg = _svg(paint, data, size, str(title), panels, False)
    phone_svg = _svg(paint, data, (_PHONE_WIDTH, phone_height), str(title), panels, True)
    named = data.copy()
    for column in data.columns:
        if not is_numeric_dtype(data[column]):
            named[column] = data[column].astype(str).map(csv_text)
    csv = named.to_csv(index=False, lineterminator="\n")
    return Picture(name, title, svg, phone_svg, csv, about, section, tuple(words))


def _svg(
    paint: Paint,
    data: pd.DataFrame,
    size: tuple[float, float],
    title: str,
    panels: int,
    narrow: bool,
) -> str:
    import matplotlib as mpl
    from matplotlib.figure import Figure

    look: Any = {**mpl.rcParamsDefault, "backend": "svg", **_STYLE}
    with mpl.rc_context(look):
        canvas = Figure(figsize=size, layout="constrained")
        axes = canvas.subplots(panels, 1) if narrow else canvas.subplots(1, panels)
        # On the page the title stands above it; on a phone it would only take room.
        if panels == 1 and not narrow:
            axes.set_title(title)
        elif not narrow:
            canvas.suptitle(title)
        paint(axes, data, narrow)
        out = io.StringIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": "allocmark"})
    return re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE)


def legend(axes: Any, narrow: bool, columns: int = 2, **options: Any) -> None:
    """Name what is drawn: beside it, on a phone below it, so that no name is out of sight."""
    if narrow:
        axes.figure.legend(loc="outside lower left", ncols=columns, fontsize="small", **options)
    else:
        axes.figure.legend(loc="outside right upper", **options)


def name_lines(axes: Any, ends: Sequence[tuple[str, str, float, float]], narrow: bool) -> None:
    """Name lines: at their ends where there is room for that, else in a legend below."""
    if not narrow:
        return label_ends(axes, ends)
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=colour, label=label) for label, colour, _, _ in ends]
    axes.figure.legend(handles=lines, loc="outside lower left", ncols=2, fontsize="small")
    return None


def label_ends(axes: Any, ends: Sequence[tuple[str, str, float, float]]) -> None:
    """Name lines at their ends: label, colour and place of each, moved apart where they meet.

    A label has several lines of text where it names lines that lie on each other.
    """
    points = 72 / axes.figure.dpi
    places = [axes.transData.transform((x, y))[1] * points for _, _, x, y in ends]
    lowest = -math.inf
    for place, (label, colour, x, y) in sorted(zip(places, ends, strict=True)):
        half = _LABEL_POINTS * (1 + label.count("\n")) / 2
        height = max(place, lowest + half)
        lowest = height + half
        axes.annotate(
            label,
            (x, y),
            xytext=(5, height - place),
            textcoords="offset points",
            va="center",
            color=colour,
            fontsize="small",
            annotation_clip=False,
        )


def colours(names: Sequence[str]) -> dict[str, str]:
    """Return a colour for each name, the same for the same list."""
    return {name: PALETTE[i % len(PALETTE)] for i, name in enumerate(names)}
