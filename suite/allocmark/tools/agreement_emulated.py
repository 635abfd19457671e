"""How far an emulated run agrees with hardware: cells, curves, every event, requests, places.

``allocmark dev agreement-emulated HARDWARE EMULATED --out FILE`` reads the
documents below two folders, of as many stacks as there are, and writes the page
(`agreement_page`): what both have of fragmentation, and the cells of capacity, placement and
pressure. Not for two runs of one machine: that is `agreement`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.system.errors import AllocmarkError
from allocmark.tools.agreement_comparison import compare
from allocmark.tools.agreement_page import FRAGMENTATION, OTHERS, Compared, render


def compare_all(
    hardware: Iterable[Document], emulated: Iterable[Document], probe: str = FRAGMENTATION
) -> list[Compared]:
    """Compare the documents of each allocator that both sides have, in the order of names.

    Raises `AllocmarkError` if one side has an allocator twice.
    """
    a, b = _by_subject(hardware, probe), _by_subject(emulated, probe)
    both = sorted(a.keys() & b.keys())
    return [(a[name], b[name], compare(a[name], b[name])) for name in both]


def _by_subject(found: Iterable[Document], probe: str) -> dict[str, Document]:
    known: dict[str, Document] = {}
    for document in found:
        if document.probe != probe:
            continue
        if document.subject in known:
            raise AllocmarkError(
                f"{probe} of {document.subject} is there twice: "
                "name a folder with one stack of each framework and one profile"
            )
        known[document.subject] = document
    return known


def write_page(hardware: Path, emulated: Path, out: Path) -> None:
    """Compare two folders and write the page. Raises `AllocmarkError` for what has no page."""
    sides = _read(hardware), _read(emulated)
    compared = compare_all(*sides)
    if not compared:
        what = f"no {FRAGMENTATION} document"
        raise AllocmarkError(f"the two folders share {what}: nothing to compare")
    others = [pair for probe in OTHERS for pair in compare_all(*sides, probe)]
    documents.write_whole(out, render(compared, others).encode())


def _read(root: Path) -> list[Document]:
    return [
        documents.read(path)
        for probe in (FRAGMENTATION, *OTHERS)
        for path in sorted(root.rglob(f"{probe}.*{documents.SUFFIX}"))
    ]
