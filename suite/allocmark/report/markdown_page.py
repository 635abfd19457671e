"""The whole page as Markdown, in either language."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from allocmark.report.disturbed import disturbed
from allocmark.report.markdown import band, bullets, heading, shown, table
from allocmark.report.page import Page, Part
from allocmark.report.paging import without_page
from allocmark.report.translation import rendered
from allocmark.store.escape import markdown_line
from allocmark.system.message import Language, Message, Text


@dataclass(frozen=True, slots=True)
class Files:
    """Where the other files of a part lie, relative to the page."""

    tables: dict[str, str]
    """CSV of each table, by its id."""
    pictures: list[tuple[str, Text, Text]]
    """Path (less .svg or .csv), title and text of each picture."""


NO_FILES = Files({}, [])


def whole(page: Page, parts: Sequence[str], language: Language = "en") -> str:
    """Return the page of which the text of each part is known; see `part_text`."""
    pieces = [heading(1, rendered(page.title, language))]
    if all(part.panel.emulated for part in page.parts):
        pieces.append(band(language))
    if len(page.parts) > 1:
        pieces.append("\n".join(_entry(part, language) for part in page.parts))
    if sentence := without_page(len(page.older)):
        pieces.append(f"{markdown_line(rendered(sentence, language))}.")
    if page.left_out:
        pieces.append(heading(2, rendered(Message("Left out"), language)))
        pieces.append(bullets(rendered(reason, language) for reason in page.left_out))
    return "\n\n".join([*pieces, *parts]) + "\n"


def _entry(part: Part, language: Language) -> str:
    """Return the line of the contents that leads to a part."""
    mark = f" ({rendered(Message('emulated'), language)})" if part.panel.emulated else ""
    return f'- <a href="#{part.slug}">{shown(part.title, language)}</a>{mark}'


def part_text(part: Part, files: Files = NO_FILES, language: Language = "en") -> str:
    """Return the text of one part, with links where there are files."""
    pieces = [f'<a id="{part.slug}"></a>', heading(2, rendered(part.title, language))]
    if part.panel.emulated:
        pieces.append(band(language))
    if warning := disturbed(part.panel):
        pieces.append(band(language, warning))
    pieces.append(bullets(rendered(fact, language) for fact in part.facts))
    data = rendered(Message("Its data as CSV"), language)
    for stem, title, about in files.pictures:
        pieces.append(f"![{shown(title, language)}]({stem}.svg)")
        pieces.append(f"{markdown_line(rendered(about, language))} [{data}]({stem}.csv)")
    for section in part.sections:
        pieces.append(heading(3, rendered(section.title, language)))
        pieces += [table(t, 4, files.tables.get(t.id), language) for t in section.tables]
    return "\n\n".join(pieces)
