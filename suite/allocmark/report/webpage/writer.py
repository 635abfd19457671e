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

from allocmark.compare.model import VERDICTS as FIGURE_VERDICTS
from allocmark.report import sharing
from allocmark.report.disturbed import disturbed
from allocmark.report.notes import EMULATED
from allocmark.report.page import Page, Part
from allocmark.report.paging import without_page
from allocmark.report.plots.drawing import Picture
from allocmark.report.stacks import Stacks
from allocmark.report.tables.verdicts import SOURCE
from allocmark.report.tables.verdicts import TITLE as VERDICTS
from allocmark.report.translation import named, rendered
from allocmark.report.webpage import compared, layout, verdicts, views
from allocmark.report.webpage.first import stack_lines
from allocmark.report.webpage.markup import html
from allocmark.store.csv_text import number
from allocmark.store.number_text import format_value
from allocmark.system.message import LANGUAGES, Joined, Language, Message, Recorded, Text
from allocmark.system.printable import visible

PAGE_NAME = "index.html"
_HERE = Path(__file__).parent


def render(
    shown: Page,
    part: Part,
    pictures: Sequence[Picture],
    language: Language = "en",
    beside: Stacks | None = None,
) -> str:
    """Return the page of one part. The same arguments give the same text.

    `language` is the one that the page opens in; it holds both. `beside` has other stacks that this
    one is compared with.
    """
    tables = [table for section in part.sections for table in section.tables]
    common = sharing.shared(tables)
    once = sharing.repeated(tables, common)
    by_id = {picture.id: picture for picture in pictures}
    first = next((by_id[name] for name in layout.FIRST_PICTURES if name in by_id), None)
    anchors = layout.anchors(part)
    sections = [
        views.section(
            s,
            [p for p in pictures if p.section == s.title and p is not first],
            anchors,
            common,
            once,
        )
        for s in part.sections
    ]
    script = _asset("page.js")
    title = Joined(" · ", (shown.title, part.title))
    text: str = _template().render(
        language=language,
        languages=LANGUAGES,
        said=lambda text, each: visible(rendered(text, each)),
        titles={each: rendered(title, each) for each in LANGUAGES},
        title=shown.title,
        source=SOURCE,
        stack=stack_lines(part),
        sections=sections,
        verdicts=verdicts.verdicts(part.judged),
        verdicts_id=layout.anchor(VERDICTS),
        first=views.picture_view(first) if first else None,
        common=[(html(Recorded(name)), html(text)) for name, text in common],
        once=[(html(Recorded(name)), html(text)) for name, text in once],
        others=_others(shown, part, language),
        older=without_page(len(shown.older)) if _is_front(shown, part) else "",
        compared=beside,
        beside=compared,
        all_verdicts=FIGURE_VERDICTS,
        value=format_value,
        left_out=shown.left_out,
        emulated=html(EMULATED) if part.panel.emulated else None,
        disturbed=disturbed(part.panel),
        rules=_column_rules(sections, len(beside.others) if beside else 0),
        style=Markup(_asset("page.css")),
        script=Markup(script),
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii"),
        t=_words,
        say=html,
        recorded=Recorded,
        raw=number,
        css=verdicts.CSS,
        signs=verdicts.SIGNS,
        colon=html(Message(": ")),
        zh=lambda id: rendered(Message(id), "zh"),
    )
    return text


def _words(id: str) -> Markup:
    """Return a message of the template: its ids are found in it by the catalogue's test."""
    return html(Message(id))


def place(shown: Page, part: Part, language: Language = "en") -> str:
    """Return where a part's page lies in the report folder: the first part's is its front.

    One that opens in another language than English has a name of its own.
    """
    name = named(PAGE_NAME, language)
    return name if _is_front(shown, part) else f"{part.slug}/{name}"


def _is_front(shown: Page, part: Part) -> bool:
    return part.slug == shown.parts[0].slug


def _others(shown: Page, part: Part, language: Language) -> list[tuple[Text, str, bool]]:
    """Return title and relative address of each other part's page, and whether it is emulated."""
    up = "" if _is_front(shown, part) else "../"
    others = [other for other in shown.parts if other.slug != part.slug]
    return [(o.title, up + place(shown, o, language), o.panel.emulated) for o in others]


def _column_rules(sections: Sequence[views.SectionView], others: int) -> Markup:
    """Return the style that hides columns: of wide tables, and of stacks that are not picked."""
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
    # Before the other stacks stand the figure's name and the page's own stack.
    rules += [
        f"#stacks:has(.c{n}:not(:checked)) tr>:nth-child({n + 2}){{display:none}}"
        for n in range(1, others + 1)
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
        finalize=_shown,
    )
    return environment.get_template("page.html.j2")


def _shown(value: object) -> object:
    """Return foreign text with what nobody can see in it spelled out."""
    return visible(value) if type(value) is str else value


@cache
def _asset(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")
