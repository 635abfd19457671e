"""Each page that leads from zero to an answer prints what it says, on the emulated driver."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.support.emulation import needs_torch
from tests.support.walkthrough import accept, differs, files, run, steps

ROOT = Path(__file__).parents[2]
PAGES = ("my-job-died", "new-gpu-or-driver", "running-nights", "writing-an-allocator")
LEAST = 2


@needs_torch
@pytest.mark.parametrize("name", PAGES)
def test_a_page_prints_what_it_says(name: str, tmp_path: Path) -> None:
    """Set ALLOCMARK_GOLDEN=write to accept what is printed now, then read the difference."""
    page = ROOT / "docs" / f"{name}.md"
    shutil.copy(ROOT / "examples" / "out_of_memory.py", tmp_path / "train.py")
    (tmp_path / "record").symlink_to(ROOT / "results")
    for file, text in files(page):
        (tmp_path / file).write_text(text)
    found = steps(page)
    assert len(found) >= LEAST
    for step in found:
        printed = run(step, tmp_path)
        missing = differs(step, printed, tmp_path)
        if missing is not None and os.environ.get("ALLOCMARK_GOLDEN") == "write":
            accept(page, step, printed, tmp_path)
            continue
        assert missing is None, f"{step.commands}\n{missing!r} is not in\n{printed}"
