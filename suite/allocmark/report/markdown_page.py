"""The whole page as Markdown, in either language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from allocmark.report.disturbed import disturbed
from allocmark.report.language import ENGLISH, Tongue
from allocmark.report.markdown import band, bullets, heading, table
from allocmark.report.page import Page, Part
from allocmark.report.paging import without_page
from allocmark.store.escape import markdown, markdown_line


@dataclass(frozen=True, slots=True)
class Files:
    """Where the other files of a part lie, relative to the page."""

    tables: dict[str, str]
    """CSV of each table, by its id."""
    pictures: list[tuple[str, str, str]]
    """Path (less .svg or .csv), title and text of each picture."""


NO_FILES = Files({}, [])


def whole(shown: Page, parts: Sequence[str], tongue: Tongue = ENGLISH) -> str:
    """Return the page of which the text of each part is known; see `part_text`."""
    pieces = [heading(1, tongue.text(shown.title))]
    if all(part.panel.emulated for part in shown.parts):
        pieces.append(band(tongue))
    if len(shown.parts) > 1:
        pieces.append("\n".join(_entry(part, tongue) for part in shown.parts))
    if sentence := without_page(len(shown.older)):
        pieces.append(f"{markdown_line(tongue.text(sentence))}.")
    if shown.left_out:
        pieces += [heading(2, tongue.text("Left out")), bullets(map(tongue.text, shown.left_out))]
    return "\n\n".join([*pieces, *parts]) + "\n"


def _entry(part: Part, tongue: Tongue) -> str:
    """Return the line of the contents that leads to a part."""
    mark = f" ({tongue.text('emulated')})" if part.panel.emulated else ""
    return f'- <a href="#{part.slug}">{markdown(tongue.text(part.title))}</a>{mark}'


def part_text(part: Part, files: Files = NO_FILES, tongue: Tongue = ENGLISH) -> str:
    """Return the text of one part, with links where there are files."""
    pieces = [f'<a id="{part.slug}"></a>', heading(2, tongue.text(part.title))]
    if part.panel.emulated:
        pieces.append(band(tongue))
    if told := disturbed(part.panel):
        pieces.append(f"> **{tongue.text(told)}**")
    pieces.append(bullets(map(tongue.text, part.facts)))
    data = tongue.text("Its data as CSV")
    for stem, title, about in files.pictures:
        pieces.append(f"![{markdown(tongue.text(title))}]({stem}.svg)")
        pieces.append(f"{markdown_line(tongue.text(about))} [{data}]({stem}.csv)")
    for section in part.sections:
        pieces.append(heading(3, tongue.text(section.title)))
        pieces += [table(t, 4, files.tables.get(t.id), tongue) for t in section.tables]
    return "\n\n".join(pieces)
