"""The page as HTML: one file with its style, script, pictures and data, and no request."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from allocmark.report.claims.text import Language, Text
from allocmark.report.html import layout, sharing, views
from allocmark.report.html.first import stack_lines
from allocmark.report.html.words import Words, markup
from allocmark.report.notes import EMULATED
from allocmark.report.page import Page, Part
from allocmark.report.pictures import Picture

_HERE = Path(__file__).parent
_NAMES = ("subject", "workload", "call", "counter", "probe", "metric", "meter")
"""Columns of the store whose values are names: alike in both languages."""


def render(
    shown: Page,
    part: Part,
    pictures: Sequence[Picture],
    language: Language = "en",
    words: Words | None = None,
) -> str:
    """Return the page of one part. The same arguments give the same text.

    `language` is the one that the page opens in; it holds both. `words` is told what was missing.
    """
    words = words or words_for(part)
    tables = [table for section in part.sections for table in section.tables]
    common = sharing.shared(tables)
    placed: dict[str, list[Picture]] = {}
    for picture in pictures:
        placed.setdefault(layout.PICTURES.get(picture.id, ""), []).append(picture)
    by_id = {picture.id: picture for picture in pictures}
    first = next((by_id[name] for name in layout.FIRST_PICTURES if name in by_id), None)
    sections = [
        views.section(s.title, s.tables, _without(placed.get(s.title, ()), first), common, words)
        for s in part.sections
    ]
    script = _asset("page.js")
    text: str = _template().render(
        language=language,
        part=part,
        title=words.text(shown.title),
        stack=stack_lines(part),
        sections=sections,
        first=views.picture_view(first, words) if first else None,
        common=[(words.html(name), words.free(text)) for name, text in common],
        left_out=shown.left_out,
        emulated=words.html(EMULATED) if part.panel.emulated else None,
        rules=_column_rules(sections),
        style=Markup(_asset("page.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        t=words.html,
        say=markup,
        colon=markup(Text(": ", "：")),
    )
    return text


def words_for(part: Part) -> Words:
    """Return the words of a page, which knows the names that occur in its part."""
    rows = part.panel.rows
    names = {str(v) for c in _NAMES if c in rows for v in rows[c].dropna().unique()}
    return Words({part.title, part.panel.machine, *names})


def _without(pictures: Sequence[Picture], first: Picture | None) -> list[Picture]:
    return [picture for picture in pictures if picture is not first]


def _column_rules(sections: Sequence[views.SectionView]) -> Markup:
    """Return the style that hides columns of wide tables, once for each set of them."""
    tables = [table for s in sections for table in (*s.leading, *s.further)]
    sets = dict.fromkeys(table.hidden for table in tables if table.hidden)
    rules = [
        ",".join(
            f".tb:has(.all:not(:checked)) .h{'-'.join(map(str, hidden))} tr>:nth-child({n})"
            for n in hidden
        )
        + "{display:none}"
        for hidden in sets
    ]
    return Markup("\n".join(rules))


@cache
def _template() -> Any:
    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("page.html.j2")


@cache
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
