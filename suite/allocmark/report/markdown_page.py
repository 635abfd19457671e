"""The whole page as Markdown."""

from __future__ import annotations

from dataclasses import dataclass

from allocmark.report.escape import markdown, markdown_line
from allocmark.report.markdown import band, bullets, heading, table
from allocmark.report.page import Page, Part


@dataclass(frozen=True, slots=True)
class Files:
    """Where the page's other files lie, relative to it."""

    tables: dict[tuple[str, str], str]
    """CSV of each table, by the slug of its part and its id."""
    pictures: dict[str, list[tuple[str, str, str]]]
    """Path (less .svg or .csv), title and text of each picture, by the slug of its part."""


def render(shown: Page, files: Files | None = None) -> str:
    """Return the page, with links where there are files; the same page gives the same text."""
    files = files or Files({}, {})
    pieces = [heading(1, shown.title)]
    if all(part.panel.emulated for part in shown.parts):
        pieces.append(band())
    if len(shown.parts) > 1:
        pieces.append("\n".join(_entry(part) for part in shown.parts))
    if shown.left_out:
        pieces += [heading(2, "Left out"), bullets(shown.left_out)]
    for part in shown.parts:
        pieces += _part(part, files)
    return "\n\n".join(pieces) + "\n"


def _entry(part: Part) -> str:
    """Return the line of the contents that leads to a part."""
    mark = " (emulated)" if part.panel.emulated else ""
    return f'- <a href="#{part.slug}">{markdown(part.title)}</a>{mark}'


def _part(part: Part, files: Files) -> list[str]:
    pieces = [f'<a id="{part.slug}"></a>', heading(2, part.title)]
    if part.panel.emulated:
        pieces.append(band())
    pieces.append(bullets(part.facts))
    for stem, title, about in files.pictures.get(part.slug, ()):
        pieces.append(f"![{markdown(title)}]({stem}.svg)")
        pieces.append(f"{markdown_line(about)} [Its data as CSV]({stem}.csv)")
    for section in part.sections:
        pieces.append(heading(3, section.title))
        pieces += [table(t, 4, files.tables.get((part.slug, t.id))) for t in section.tables]
    return pieces
