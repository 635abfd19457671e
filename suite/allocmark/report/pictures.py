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


@dataclass(frozen=True, slots=True)
class Picture:
    """An SVG and the data it shows; `about` says how to read it.

    `section` is the title of that to which it belongs. `words` are texts of the SVG, which has them
    in English; what else stands in it is names, numbers and what the record holds.
    """

    id: str
    title: Text
    svg: str
    csv: str
    about: Text
    section: Text
    words: tuple[Text, ...] = ()


def draw(
    name: str,
    title: Text,
    data: pd.DataFrame,
    paint: Callable[[Any, pd.DataFrame], None],
    size: tuple[float, float],
    *,
    about: Text,
    section: Text,
    emulated: bool,
    words: Iterable[Text] = (),
    panels: int = 1,
) -> Picture:
    """Return the picture that `paint` makes of `data` on one pair of axes, or on several."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    if emulated:
        # A picture that is copied away must still say where it is from.
        title = Message("{text} (emulated GPU)", text=title)
    look: Any = {**mpl.rcParamsDefault, "backend": "svg", **_STYLE}
    with mpl.rc_context(look):
        canvas = Figure(figsize=size, layout="constrained")
        axes = canvas.subplots(1, panels)
        if panels == 1:
            axes.set_title(str(title))
        else:
            canvas.suptitle(str(title))
        paint(axes, data)
        out = io.StringIO()
        canvas.savefig(out, format="svg", metadata={"Date": None, "Creator": "allocmark"})
    svg = re.sub(r"[ \t]+$", "", out.getvalue(), flags=re.MULTILINE)
    named = data.copy()
    for column in data.columns:
        if not is_numeric_dtype(data[column]):
            named[column] = data[column].astype(str).map(csv_text)
    csv = named.to_csv(index=False, lineterminator="\n")
    return Picture(name, title, svg, csv, about, section, tuple(words))


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
