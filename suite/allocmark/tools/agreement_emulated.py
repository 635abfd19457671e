"""How far an emulated run agrees with hardware: cells, curves, every event, requests, places.

``python -m allocmark.tools.agreement_emulated HARDWARE EMULATED --out FILE`` reads the
documents below two folders, of as many stacks as there are, and writes the page
(`agreement_page`): what both have of fragmentation, and the cells of capacity, placement and
pressure. Not for two runs of one machine: that is `report.agreement`.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from allocmark.schema import documents
from allocmark.schema.documents import Document
from allocmark.system.errors import EXIT_BAD_INPUT, EXIT_FINE, AllocmarkError
from allocmark.system.stopping import until_stopped
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


def main(arguments: Sequence[str]) -> int:
    """Compare two folders and write the page; returns 0, or 2 for bad input."""
    parser = argparse.ArgumentParser(prog="python -m allocmark.tools.agreement_emulated")
    parser.add_argument("hardware", type=Path, metavar="HARDWARE", help="documents of a GPU")
    parser.add_argument("emulated", type=Path, metavar="EMULATED", help="emulated documents")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="where to write")
    chosen = parser.parse_args(arguments)
    try:
        sides = _read(chosen.hardware), _read(chosen.emulated)
        compared = compare_all(*sides)
        if not compared:
            raise AllocmarkError(
                f"the two folders share no {FRAGMENTATION} document: nothing to compare"
            )
        others = [one for probe in OTHERS for one in compare_all(*sides, probe)]
        page = render(compared, others)
    except AllocmarkError as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_INPUT
    documents.write_whole(chosen.out, page.encode())
    print(chosen.out)
    return EXIT_FINE


def _read(root: Path) -> list[Document]:
    return [
        documents.read(path)
        for probe in (FRAGMENTATION, *OTHERS)
        for path in sorted(root.rglob(f"{probe}.*{documents.SUFFIX}"))
    ]


if __name__ == "__main__":
    raise SystemExit(until_stopped(lambda: main(sys.argv[1:])))
