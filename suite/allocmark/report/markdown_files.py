"""The page as Markdown files: an index that shows the first screen, and one page a section."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.claims.core.claim import Ruling, count_rulings, decided
from allocmark.report.disturbed import disturbed
from allocmark.report.markdown import band, bullets, conditions, heading, numbered, shown, table
from allocmark.report.markdown_page import (
    CONDITIONS,
    REPEATED,
    common_conditions,
    opening,
    repeated_conditions,
)
from allocmark.report.page import Part, Section, slugged, unique
from allocmark.report.plots.drawing import Picture
from allocmark.report.tables.verdicts import TITLE as VERDICTS
from allocmark.report.tables.verdicts import on_little
from allocmark.report.translation import named, rendered
from allocmark.report.webpage import layout
from allocmark.schema.documents import write_whole
from allocmark.store.escape import markdown_line
from allocmark.system.message import Language, Message, Text

INDEX = "README.md"
"""So that a folder of reports shows its page where it is browsed."""
_CONDITIONS_PAGE = "conditions.md"


@dataclass(frozen=True, slots=True)
class Files:
    """What else was written into a part's folder."""

    tables: Mapping[str, str]
    """CSV of each table, by its id."""
    pictures: Sequence[tuple[Picture, str]]
    """Each picture, with the name of its files less .svg or .csv."""


def write(part: Part, files: Files, out: Path, language: Language) -> str:
    """Write a page for each section of a part, and for what held of all tables; return the part's
    first screen, which leads to these."""
    folder = out / part.slug
    taken = {_CONDITIONS_PAGE.removesuffix(".md")}
    pages = {
        section.title: named(f"{unique(slugged(str(section.title)), taken)}.md", language)
        for section in part.sections
    }
    for section in part.sections:
        text = "\n\n".join(_section(part, section, files, language)) + "\n"
        write_whole(folder / pages[section.title], text.encode())
    text = "\n\n".join(_conditions_page(part, language)) + "\n"
    write_whole(folder / named(_CONDITIONS_PAGE, language), text.encode())
    pages[CONDITIONS] = named(_CONDITIONS_PAGE, language)
    return "\n\n".join(_first_screen(part, files, pages, language))


def _section(part: Part, section: Section, files: Files, language: Language) -> Iterator[str]:
    yield heading(1, rendered(section.title, language))
    yield _back(part, language)
    if part.panel.emulated:
        yield band(language)
    if warning := disturbed(part.panel):
        yield band(language, warning)
    for picture, stem in files.pictures:
        if picture.section == section.title:
            yield from _picture(picture, stem, language)
    common, once = common_conditions(part), repeated_conditions(part)
    page = named(_CONDITIONS_PAGE, language)
    for one in section.tables:
        yield table(one, 2, files.tables.get(one.id), language, common, once, page)
    if any(one.conditions for one in section.tables):
        yield f"[{rendered(CONDITIONS, language)}]({page})"


def _conditions_page(part: Part, language: Language) -> Iterator[str]:
    yield heading(1, rendered(CONDITIONS, language))
    yield _back(part, language)
    yield conditions(common_conditions(part), language)
    if once := repeated_conditions(part):
        yield heading(2, rendered(REPEATED, language))
        yield numbered(once, language)


def _first_screen(
    part: Part, files: Files, pages: Mapping[Text, str], language: Language
) -> Iterator[str]:
    yield from opening(part, language)
    if decided(part.judged):
        yield _headlines(part, language)
        yield from _tally(part, f"{part.slug}/{pages[VERDICTS]}", language)
    by_id = {picture.id: (picture, stem) for picture, stem in files.pictures}
    for name in layout.FIRST_PICTURES:
        if name in by_id:
            picture, stem = by_id[name]
            yield from _picture(picture, f"{part.slug}/{stem}", language)
            break
    yield heading(3, rendered(Message("Contents"), language))
    yield "\n".join(
        f"1. [{shown(title, language)}]({part.slug}/{page})" for title, page in pages.items()
    )


def _headlines(part: Part, language: Language) -> str:
    """Return the figures of the first screen, one a line."""
    lines = []
    for one in part.headlines:
        times = " ×" if one.evidence.cell.unit == "ratio" else ""
        figure = shown(f"{one.evidence.marked}{times}", language)
        lines.append(f"- **{figure}** {shown(one.what, language)}")
    return "\n".join(lines)


def _tally(part: Part, verdicts_page: str, language: Language) -> Iterator[str]:
    counts = count_rulings(part.judged)
    yield heading(3, rendered(Message("Do the statements hold?"), language))
    names = " | ".join(rendered(ruling.words, language) for ruling in counts)
    numbers = " | ".join(map(str, counts.values()))
    yield f"| {names} |\n|{' ---: |' * len(counts)}\n| {numbers} |"
    if sentence := on_little(part.judged):
        yield markdown_line(rendered(sentence, language))
    wrong = [one for one in part.judged if one.verdict.ruling is Ruling.FAILS]
    if wrong:
        yield heading(4, rendered(Message("What does not hold"), language))
        yield bullets(rendered(one.claim.statement, language) for one in wrong)
    yield f"[{rendered(Message('All statements, with evidence'), language)}]({verdicts_page})"


def _picture(picture: Picture, stem: str, language: Language) -> Iterator[str]:
    data = rendered(Message("Its data as CSV"), language)
    yield f"![{shown(picture.title, language)}]({stem}.svg)"
    yield f"{markdown_line(rendered(picture.about, language))} [{data}]({stem}.csv)"


def _back(part: Part, language: Language) -> str:
    return f"[{shown(part.title, language)}](../{named(INDEX, language)})"
