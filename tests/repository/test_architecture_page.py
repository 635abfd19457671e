"""docs/architecture.md is true: the files that it names are there, in the order of imports."""

from __future__ import annotations

import re
from pathlib import Path

from tests.test_architecture import FLOORS

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def test_it_is_short_enough_to_be_read() -> None:
    assert len(PAGE.splitlines()) <= 150


def test_every_file_and_folder_that_it_names_is_there() -> None:
    named = re.findall(r"`([\w./]+(?:\.py|\.json|\.md|/))`", PAGE)
    made = {"build/history", "reports/", "results/"}
    for name in sorted({*named} - made):
        places = (ROOT / "suite" / "allocmark" / name, ROOT / "suite" / name, ROOT / name)
        inside = ROOT / "suite" / "allocmark" / "experiments" / name
        assert any(path.exists() for path in (*places, inside)), name


def test_its_table_has_the_folders_in_the_order_of_their_imports() -> None:
    rows = re.findall(r"^\| (`[a-z]+/`(?:, `[a-z]+/`)*) \|", PAGE, re.MULTILINE)
    folders = [name for row in rows for name in re.findall(r"`([a-z]+)/`", row)]
    assert folders == list(FLOORS)
