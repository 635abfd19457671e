"""The whole page as Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allocmark.report.escape import markdown
from allocmark.report.markdown import band, bullets, heading, table
from allocmark.report.page import Page, Part

Pictures = Mapping[str, Sequence[tuple[str, str]]]
"""Path and title of each picture, by the slug of its part."""


def render(shown: Page, pictures: Pictures | None = None) -> str:
    """Return the page; the same page gives the same text."""
    pieces = [heading(1, shown.title)]
    if any(part.panel.emulated for part in shown.parts):
        pieces.append(band())
    if shown.left_out:
        pieces += [heading(2, "Left out"), bullets(shown.left_out)]
    for part in shown.parts:
        pieces += _part(part, (pictures or {}).get(part.slug, ()))
    return "\n\n".join(pieces) + "\n"


def _part(part: Part, pictures: Sequence[tuple[str, str]]) -> list[str]:
    pieces = [heading(2, part.title)]
    if part.panel.emulated:
        pieces.append(band())
    pieces.append(bullets(part.facts))
    pieces += [f"![{markdown(title)}]({path})" for path, title in pictures]
    for section in part.sections:
        pieces.append(heading(3, section.title))
        pieces += [table(shown, 4) for shown in section.tables]
    return pieces
