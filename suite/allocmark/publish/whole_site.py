"""Building the site from results folders; it can be made again at any time and holds no record."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from allocmark.asv import history
from allocmark.fleet.searching import search
from allocmark.publish.folders import emptied_scratch, marked_site, refuse_foreign
from allocmark.publish.merging import merge
from allocmark.publish.offline import take_offline
from allocmark.publish.pages import CONFIG, Part, make_site, write_pages
from allocmark.report import write_report
from allocmark.report.fleet_page import render
from allocmark.schema.documents import write_whole
from allocmark.store import frame, table_file
from allocmark.system.errors import AllocmarkError

FIGURES = "figures.csv"
SUMMARY = "summary.md"
"""What a night says of itself, in ``<lane>/<night>/``."""


DEFAULT_ROOTS = (Path("results"), Path("nightly"))


def build(roots: Sequence[Path], project: Path, out: Path, scratch: Path) -> list[str]:
    """Build the site into `out` and return what was left out of it, in words.

    `roots` are results folders, or folders of them; `project` is a clone of allocmark.
    ``index.html`` and the docs, ``report/``, ``history/`` (asv's site by stack), ``data/`` with
    every figure as CSV. Raises `AllocmarkError` where there are no results, and where `out` or
    `scratch`, which are emptied, hold something else or are not apart from the results.
    """
    refuse_foreign(out, scratch, roots)
    emptied_scratch(scratch)
    left_out: list[str] = []
    results = merge(roots, scratch / "results")
    pages = scratch / "pages"
    write_report(results, pages / "report", for_site=True)
    parts = [Part("report", "index.html", "Report", "tables, pictures, verdicts and comparisons")]
    parts += [*_fleet(results, pages), *_nights(roots, pages)]
    try:
        left_out += history.build(list(roots), scratch / "history", project)
    except AllocmarkError as error:
        left_out.append(f"no history: {error}")
    else:
        shutil.copytree(history.publish(scratch / "history"), pages / "history")
        if (reason := take_offline(pages / "history", scratch / "npm")) is not None:
            left_out.append(reason)
        about = "every tracked figure by stack, in the order first run, and the steps found in them"
        parts.append(Part("history", "index.html", "History", about))
    loaded = frame.load(results)
    write_whole(pages / "data" / FIGURES, table_file.csv(loaded))
    parts.append(Part("data", FIGURES, "Data", "every figure of the record as CSV"))
    left_out += [f"{item.path}: {item.reason}" for item in loaded.left_out]
    write_pages(project / "docs", pages, parts)
    marked_site(out)
    make_site(project / CONFIG, pages, out)
    return left_out


def _fleet(results: Path, pages: Path) -> list[Part]:
    """Write the page of odd machines, and return it where there are machines of one kind."""
    try:
        found = search([results])
    except AllocmarkError:
        return []
    write_whole(pages / "fleet" / "index.html", render(found).encode())
    return [
        Part("fleet", "index.html", "Fleet", "machines of one kind, and the odd ones among them")
    ]


def _nights(roots: Sequence[Path], pages: Path) -> list[Part]:
    """Write each night's summary as a page, the newest first, and return what lists them."""
    found = {path.parent.name: path for root in roots for path in root.rglob(f"*/*/{SUMMARY}")}
    if not found:
        return []
    lines = ["# Nights", ""]
    for name, path in sorted(found.items(), reverse=True):
        lane, text = path.parents[1].name, path.read_text(encoding="utf-8")
        write_whole(pages / "nights" / f"{lane}-{name}.md", text.encode())
        title = text.partition("\n")[0].lstrip("# ")
        lines.append(f"- [{name}]({lane}-{name}.md): {title}")
    write_whole(pages / "nights" / "index.md", ("\n".join(lines) + "\n").encode())
    return [Part("nights", "index.md", "Nights", "what each night found, the newest first")]
