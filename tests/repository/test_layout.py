"""Where things lie: tests mirror the package, and a name stands for one thing within a folder."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "suite" / "allocmark"
OF_THE_PROJECT = {"end_to_end", "repository", "starter", "support"}
"""Folders of tests of something else than one folder of the package."""


def test_tests_mirror_the_package() -> None:
    tests = ROOT / "tests"
    for path in tests.rglob("test_*.py"):
        folder = path.parent.relative_to(tests)
        if path.parent != tests and folder.parts[0] not in OF_THE_PROJECT:
            assert (PACKAGE / folder).is_dir(), path


def test_helpers_of_tests_lie_in_one_package() -> None:
    found = {
        path.relative_to(ROOT)
        for path in (ROOT / "tests").rglob("*.py")
        if not path.name.startswith(("test_", "conftest", "__init__"))
    }
    assert all(path.parts[:2] == ("tests", "support") for path in found)


def test_a_class_name_stands_for_one_thing_in_a_folder() -> None:
    found: dict[tuple[str, str], list[Path]] = defaultdict(list)
    for path in PACKAGE.rglob("*.py"):
        where = path.relative_to(PACKAGE).parts
        folder = "/".join(where[:2] if where[0] == "experiments" else where[:1])
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found[folder, node.name].append(path.relative_to(PACKAGE))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}
