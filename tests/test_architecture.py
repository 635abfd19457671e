"""The import contract: folders know only those below them, an experiment knows no other."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITE = ROOT / "suite"
PACKAGE = SUITE / "allocmark"

FLOORS = (
    "system",
    "hook",
    "emulator",
    "cuda",
    "machine",
    "schema",
    "allocators",
    "workloads",
    "meters",
    "store",
    "experiments",
    "compare",
    "fleet",
    "claims",
    "report",
    "gate",
    "measure",
    "check",
    "recording",
    "explain",
    "replays",
    "asv",
    "publish",
    "nightly",
    "tools",
    "commands",
)
"""The folders of the package, from the ground up: each may import those before it."""

LOOSE = {"__init__", "__main__"}
"""The only modules that lie in no folder."""

MOST_MODULES = 24
"""More in one folder than that, and nobody finds anything."""

STANDARD_LIBRARY_ONLY = ("explain.watch", "hook.inside")
"""Loaded into interpreters of others by their files: they import nothing of allocmark's."""

STARTS_THE_EMULATOR = {"commands", "replays", "tools"}
FRAMEWORKS = {"torch", "tensorflow", "cupy", "jax", "rmm"}
LOADS_FRAMEWORKS = {
    "allocators",
    "check",
    "experiments",
    "explain",
    "hook",
    "machine",
    "meters",
    "recording",
    "tools",
    "workloads",
}
"""Folders with code that runs in a measuring process, or in the user's own."""


def _modules() -> dict[str, Path]:
    """Return every module of the package by its name below ``allocmark``."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    return found


MODULES = _modules()


def _imports(node: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every module imported below a node, with its line; what is no module, its module."""
    for each in ast.walk(node):
        if isinstance(each, ast.Import):
            yield from ((alias.name, each.lineno) for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and each.module and not each.level:
            for alias in each.names:
                inner = f"{each.module}.{alias.name}"
                name = inner.removeprefix("allocmark.")
                yield (inner if name in MODULES else each.module), each.lineno


def _own_imports(path: Path) -> Iterator[tuple[str, int]]:
    """Yield the modules of the package that a file imports, without ``allocmark.``."""
    for module, line in _imports(ast.parse(path.read_text())):
        first, _, rest = module.partition(".")
        if first == "allocmark" and rest:
            yield rest, line


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


def test_every_module_lies_in_a_folder_of_the_contract() -> None:
    loose = {name for name, path in MODULES.items() if path.parent == PACKAGE}
    assert loose == LOOSE
    folders = {path.relative_to(PACKAGE).parts[0] for path in MODULES.values()} - {
        f"{name}.py" for name in LOOSE
    }
    assert folders == set(FLOORS)


def test_no_folder_is_flat_and_long() -> None:
    for folder in {path.parent for path in MODULES.values()}:
        assert len(list(folder.glob("*.py"))) <= MOST_MODULES, folder


def test_no_module_is_named_like_one_of_the_standard_library() -> None:
    for name in MODULES:
        assert name.rpartition(".")[2] not in sys.stdlib_module_names, name


@pytest.mark.parametrize("folder", FLOORS)
def test_imports_go_one_way_between_folders(folder: str) -> None:
    allowed = {*FLOORS[: FLOORS.index(folder) + 1]}
    wrong = [
        f"{_place(path, line)} imports {module}"
        for name, path in MODULES.items()
        if name.partition(".")[0] == folder
        for module, line in _own_imports(path)
        if module.partition(".")[0] not in allowed
    ]
    assert not wrong


def test_an_experiment_imports_no_other_experiment() -> None:
    """Below them lies ``core``, which knows no ``shared``; above them their catalogue."""
    wrong = []
    for name, path in MODULES.items():
        where = name.split(".")
        if where[0] != "experiments" or path.parent == PACKAGE / "experiments":
            continue
        allowed = {"core": {"core"}, "shared": {"core", "shared"}}.get(
            where[1], {"core", "shared", where[1]}
        )
        for module, line in _own_imports(path):
            to = module.split(".")
            if to[0] == "experiments" and (len(to) == 1 or to[1] not in allowed):
                wrong.append(f"{_place(path, line)} imports {module}")
    assert not wrong


def test_nothing_that_measures_imports_the_emulator() -> None:
    """It is a driver and no mode: commands and replays start others on it."""
    for name, path in MODULES.items():
        for module, line in _own_imports(path):
            if module.partition(".")[0] == "emulator":
                folder = name.partition(".")[0]
                assert folder in {"emulator", *STARTS_THE_EMULATOR}, _place(path, line)


def _at_module_level(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield what is imported when the module is: not inside functions, nor for typing alone."""
    for node in tree.body:
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if not is_typing and not isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
        ):
            yield from _imports(node)


def test_no_framework_is_imported_with_a_module() -> None:
    for path in [*MODULES.values(), *sorted((ROOT / "benchmarks").glob("*.py"))]:
        for module, line in _at_module_level(ast.parse(path.read_text())):
            assert module.split(".")[0] not in FRAMEWORKS, f"{_place(path, line)} imports {module}"


def test_what_measures_nothing_imports_no_framework_at_all() -> None:
    others = [p for name, p in MODULES.items() if name.partition(".")[0] not in LOADS_FRAMEWORKS]
    for path in [*others, *sorted((ROOT / "benchmarks").glob("*.py"))]:
        for module, line in _imports(ast.parse(path.read_text())):
            assert module.split(".")[0] not in FRAMEWORKS, f"{_place(path, line)} imports {module}"


def test_what_is_loaded_into_other_interpreters_uses_the_standard_library_only() -> None:
    siblings = {path.stem for path in (PACKAGE / "hook" / "inside").glob("allocmark_*.py")}
    allowed = {*sys.stdlib_module_names, *siblings, "torch", "pynvml"}
    for name, path in MODULES.items():
        if name.startswith(STANDARD_LIBRARY_ONLY):
            for module, line in _imports(ast.parse(path.read_text())):
                assert module.split(".")[0] in allowed, _place(path, line)


def test_the_start_uses_the_standard_library_only() -> None:
    """Of others only pip's own copies: pip is what a new environment holds."""
    allowed = {*sys.stdlib_module_names, "starter", "pip"}
    for path in [SUITE / "start.py", *sorted((SUITE / "starter").glob("*.py"))]:
        for module, line in _imports(ast.parse(path.read_text())):
            assert module.split(".")[0] in allowed, _place(path, line)
