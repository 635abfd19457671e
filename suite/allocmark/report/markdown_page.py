"""The whole page as one Markdown text, in either language, without pictures or links to files."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.report import sharing
from allocmark.report.disturbed import disturbed
from allocmark.report.markdown import band, bullets, conditions, heading, numbered, shown, table
from allocmark.report.page import Page, Part
from allocmark.report.paging import without_page
from allocmark.report.translation import rendered
from allocmark.store.escape import markdown_line
from allocmark.store.table import Table
from allocmark.system.message import Language, Message

CONDITIONS = Message("Conditions of every table")
REPEATED = Message("Conditions of several tables")


def whole(page: Page, parts: Sequence[str], language: Language = "en") -> str:
    """Return the page of which the text of each part is known: all of it, or its first screen."""
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


def opening(part: Part, language: Language) -> list[str]:
    """Return what stands first of a part: its name, what to know of it, what was run."""
    pieces = [f'<a id="{part.slug}"></a>', heading(2, rendered(part.title, language))]
    if part.panel.emulated:
        pieces.append(band(language))
    if warning := disturbed(part.panel):
        pieces.append(band(language, warning))
    return [*pieces, bullets(rendered(fact, language) for fact in part.facts)]


def part_text(part: Part, language: Language = "en") -> str:
    """Return all of one part; what held for most of its tables is said once, at its end."""
    pieces = opening(part, language)
    common, once = common_conditions(part), repeated_conditions(part)
    for section in part.sections:
        pieces.append(heading(3, rendered(section.title, language)))
        pieces += [table(one, 4, None, language, common, once) for one in section.tables]
    if common:
        pieces += [heading(3, rendered(CONDITIONS, language)), conditions(common, language)]
    if once:
        pieces += [heading(3, rendered(REPEATED, language)), numbered(once, language)]
    return "\n\n".join(pieces)


def common_conditions(part: Part) -> sharing.Conditions:
    """Return what held for most tables of a part."""
    return sharing.shared(_tables(part))


def repeated_conditions(part: Part) -> sharing.Conditions:
    """Return what held for several tables of a part, and takes many words."""
    return sharing.repeated(_tables(part), common_conditions(part))


def _tables(part: Part) -> list[Table]:
    return [table for section in part.sections for table in section.tables]
