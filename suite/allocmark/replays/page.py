"""The answer as one page that needs nothing else: no network, light and dark."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from allocmark.experiments.shared.allocator_setting import IDLE
from allocmark.recording.importers.frames import brief
from allocmark.replays import breakdown_svg, table
from allocmark.replays.answer import ReplayAnswer, SettingAnswer
from allocmark.replays.breakdown_svg import Line
from allocmark.replays.explanation import explain
from allocmark.replays.non_allocator_memory import in_words
from allocmark.replays.summary import summary
from allocmark.schema.documents import write_whole
from allocmark.schema.memory_kinds import CACHED, INACTIVE_SPLIT, LIVE, PENDING_FREE, PRIVATE_POOL
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import format_bytes

_TEMPLATE = Path(__file__).with_name("page.html.j2")
_STYLE = Path(__file__).with_name("page.css")
KINDS = (  # Classes of the style sheet, and what they show.
    ("live", LIVE),
    ("cached", CACHED),
    ("split", INACTIVE_SPLIT),
    ("stuck", PENDING_FREE),
    ("pool", PRIVATE_POOL),
)


def write(path: Path, answer: ReplayAnswer) -> None:
    """Write the page, whole or not at all.

    Raises `AllocmarkError` where the template engine is not installed.
    """
    write_whole(path, render(answer).encode())


def render(answer: ReplayAnswer) -> str:
    """Return the page's text; whatever comes from the recording is escaped."""
    return filled(_TEMPLATE, **_values(answer))


def filled(template: Path, **values: Any) -> str:
    """Return a template filled in, every value escaped that is no markup.

    Raises `AllocmarkError` where the template engine is not installed.
    """
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup, escape
    except ImportError as error:
        raise AllocmarkError(
            f"the page needs {error.name}: install it with pip install 'allocmark[report]'"
        ) from error
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["bytes"] = format_bytes
    environment.filters["own"] = brief
    environment.filters["breaks"] = lambda line: Markup("").join(
        escape(part) + Markup("<wbr>") for part in re.split("(?<=[=,])", line)
    )
    environment.globals["style"] = Markup(_STYLE.read_text(encoding="utf-8"))
    return environment.from_string(template.read_text(encoding="utf-8")).render(**values)


def _values(answer: ReplayAnswer) -> dict[str, Any]:
    explained = explain(answer)
    lines = _lines(answer)
    marks: dict[str, float] = {}
    if explained and explained.breakdown.event >= 0:
        mark = "a request failed here" if explained.failing else "peak"
        marks = {mark: explained.breakdown.event}
    drawn = next((one for one in (answer.recorded, *answer.settings) if one and one.cells), None)
    over_time = breakdown_svg.over_time(drawn.over_time["event"], drawn.cells) if drawn else ""
    on_card = answer.card is not None
    replayed = [tried for tried in answer.settings if not tried.reason]
    return dict(
        title=f"allocmark replay: {answer.recording.source}",
        answer=answer,
        summary=summary(answer),
        columns=[name.replace("\n", " ") for name in table.columns(on_card, answer.limited)],
        rows=[(table.row(tried, on_card), tried.setting.line) for tried in replayed],
        idle=[tried.name for tried in replayed if IDLE in tried.in_force],
        idle_words=IDLE,
        missing=[(tried.name, tried.reason) for tried in answer.settings if tried.reason],
        outside=in_words(answer.outside),
        card=in_words(answer.card) if answer.card else "",
        limit=answer.limit.in_words if answer.limit and answer.limited else "",
        explained=explained,
        kinds=KINDS,
        segments_svg=breakdown_svg.segment_map(explained.map) if explained else "",
        curves_svg=breakdown_svg.curves(lines, marks, _limit(answer)),
        lines=lines,
        drawn=drawn,
        over_time_svg=over_time,
        times=answer.source_of_times,
    )


def _lines(answer: ReplayAnswer) -> list[Line]:
    """Return what the program asked for, and what the recorded and the best setting reserve."""
    drawn: list[SettingAnswer] = []
    for tried in (answer.recorded, *answer.settings[:1]):
        if tried is not None and tried not in drawn and "reserved" in tried.curve:
            drawn.append(tried)
    if not drawn:
        return []
    first = drawn[0].curve
    lines = [Line("requested by the program", "requested", first["event"], first["requested"])]
    for tried in drawn:
        kind = "recorded" if tried is answer.recorded else "best"
        name = f"reserved under {tried.name}"
        lines.append(Line(name, kind, tried.curve["event"], tried.curve["reserved"]))
    return lines


def _limit(answer: ReplayAnswer) -> tuple[str, float] | None:
    if answer.card is None:
        return None
    if answer.limit is not None and answer.limited:
        allowed = answer.limit.allowed_bytes
        return f"limit of the process: {format_bytes(allowed)}", allowed
    left = answer.card.value_bytes - answer.outside.value_bytes
    return f"room on the card: {format_bytes(left)}", left
