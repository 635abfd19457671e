"""Programs are scripts: found in their folder, described by themselves, or said to be lacking."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.system.errors import AllocmarkError, UnknownNameError
from allocmark.tools.accuracy import programs


def _script(folder: Path, text: str) -> Path:
    path = folder / "some_program.py"
    path.write_text(text)
    return path


def test_a_program_is_described_by_its_own_file(tmp_path: Path) -> None:
    path = _script(
        tmp_path,
        '"""What it does.\n\nMore."""\nimport json, torch.nn\nfrom torch import Tensor\n'
        "from no_such_library.inner import x\n\ndef f():\n    import nothing_at_the_top\n",
    )
    found = programs.read(path)
    assert (found.name, found.description) == ("some_program", "What it does.")
    assert found.modules == ("torch.nn", "torch", "no_such_library.inner")
    assert found.libraries == ("torch", "no_such_library")
    assert found.missing is not None and found.missing.endswith("no_such_library is not installed")
    assert "no_such_library" not in found.versions()


def test_what_is_no_program_is_refused_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(AllocmarkError, match="cannot be read as a program"):
        programs.read(_script(tmp_path, "def :"))
    with pytest.raises(UnknownNameError, match="detection"):
        programs.chosen(["no_such_program"])


def test_a_program_is_found_by_its_name_or_its_path(tmp_path: Path) -> None:
    path = _script(tmp_path, "import json\n")
    own, named = programs.chosen([str(path), "detection"])
    assert (own.path, own.missing) == (path, None)
    assert named == programs.every()["detection"]
    assert [each.name for each in programs.chosen(None)] == sorted(programs.every())


@pytest.mark.parametrize("name", programs.every())
def test_a_program_of_the_project_says_what_it_is(name: str) -> None:
    found = programs.every()[name]
    assert "torch" in found.libraries
    assert found.description.endswith(".") and len(found.description) <= 100
    text = found.path.read_text()
    assert "manual_seed(" in text and "allocmark" not in text
