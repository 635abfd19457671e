"""The import contract: arrows point one way, and a framework is imported where it is measured."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SUITE = ROOT / "suite"

FOUNDATION = {
    *(
        "__version__",
        "compile",
        "documents",
        "errors",
        "bytecode",
        "figures",
        "foreground",
        "interpreters",
        "layout",
        "lifetime",
    ),
    *("progress", "sentences", "statistics", "stopping", "units"),
}
"""Modules that any room may use; they know no room."""

MAY_IMPORT = {
    "cuda": set[str](),
    "allocators": {"cuda"},
    "workloads": {"allocators"},  # a recording names the allocator it was made over
    "meters": {"allocators", "conditions", "cuda"},  # the timing loop takes entry points
    "conditions": {"meters"},
    "stack": {"conditions", "emulator", "meters"},
    "frameworks": {"stack"},
    "probes": {"allocators", "conditions", "cuda", "frameworks", "meters", "stack", "workloads"},
    "importers": {"workloads"},
    "recording": set(),
    "watching": set(),  # loaded into any interpreter: it may not import the foundation either
    "diagnosis": {"meters", "report", "stack", "store", "watching"},
    "explanation": {"importers"},
    "replaying": {
        *("allocators", "conditions", "emulator", "explanation", "importers", "probes", "stack"),
        "workloads",
    },
    "store": {"store_columns"},
    "store_columns": set(),
    "compare": set(),
    "gate": {"compare", "report", "stack"},
    "history": set(),
    "publish": {"gate", "history", "report", "store"},
    "nightly": {"compare", "gate", "probes", "report", "stack"},
    "report": {"allocators", "compare", "store"},  # the names of allocators, for the order of rows
    "emulator": set(),
    "benchmarks": {"cells", "tracking", "workloads"},
}
"""What each room may import besides itself and the foundation."""

STARTS_THE_EMULATOR = ("emulator", "cli", "replaying")
FRAMEWORKS = {"torch", "tensorflow", "cupy", "jax", "rmm"}
NO_FRAMEWORK_AT_ALL = (
    *(
        "benchmarks",
        "store",
        "store_columns",
        "compare",
        "gate",
        "history",
        "nightly",
        "report",
        "stack",
        "cells",
        "tracking",
    ),
    *("cli", "run"),
)


def _sources() -> list[tuple[str, Path]]:
    """Return every source with its room: the folder or module right below the package."""
    package = SUITE / "allocmark"
    found = [("benchmarks", path) for path in sorted((ROOT / "benchmarks").glob("*.py"))]
    for path in sorted(package.rglob("*.py")):
        found.append((path.relative_to(package).with_suffix("").parts[0], path))
    return found


def _modules(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield every imported module below a node, with its line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            if node.module == "allocmark":
                yield from ((f"allocmark.{alias.name}", node.lineno) for alias in node.names)
            else:
                yield node.module, node.lineno


def _at_module_level(tree: ast.Module) -> Iterator[tuple[str, int]]:
    """Yield what is imported when the module is: not inside functions, nor for typing alone."""
    for node in tree.body:
        is_typing = isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        if is_typing or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if isinstance(node, ast.ClassDef):
            continue
        yield from _modules(node)


def _place(path: Path, line: int) -> str:
    return f"{path.relative_to(ROOT)}:{line}"


@pytest.mark.parametrize("room", MAY_IMPORT)
def test_arrows_point_one_way(room: str) -> None:
    allowed = MAY_IMPORT[room] | FOUNDATION | {room}
    wrong = []
    for where, path in _sources():
        if where != room:
            continue
        for module, line in _modules(ast.parse(path.read_text())):
            name, _, rest = module.partition(".")
            if name == "allocmark" and rest.split(".")[0] not in allowed:
                wrong.append(f"{_place(path, line)} imports {module}")
    assert not wrong


def test_the_foundation_knows_no_room() -> None:
    wrong = []
    for where, path in _sources():
        if where in FOUNDATION:
            for module, line in _modules(ast.parse(path.read_text())):
                name, _, rest = module.partition(".")
                if name == "allocmark" and rest.split(".")[0] not in FOUNDATION:
                    wrong.append(f"{_place(path, line)} imports {module}")
    assert not wrong


def test_nothing_that_measures_imports_the_emulator() -> None:
    """The command line and the replays start it; the stack asks the driver whether it is one."""
    for where, path in _sources():
        for module, line in _modules(ast.parse(path.read_text())):
            if module.startswith("allocmark.emulator") and where not in STARTS_THE_EMULATOR:
                assert where == "stack" and module == "allocmark.emulator.detect", _place(
                    path, line
                )


def test_no_framework_is_imported_with_a_module() -> None:
    wrong = []
    for _, path in _sources():
        for module, line in _at_module_level(ast.parse(path.read_text())):
            if module.split(".")[0] in FRAMEWORKS:
                wrong.append(f"{_place(path, line)} imports {module}")
    assert not wrong


@pytest.mark.parametrize("room", NO_FRAMEWORK_AT_ALL)
def test_rooms_that_import_no_framework_at_all(room: str) -> None:
    wrong = []
    for where, path in _sources():
        if where == room:
            for module, line in _modules(ast.parse(path.read_text())):
                if module.split(".")[0] in FRAMEWORKS:
                    wrong.append(f"{_place(path, line)} imports {module}")
    assert not wrong


def test_what_is_loaded_into_other_interpreters_uses_the_standard_library_only() -> None:
    """The hook and the watching, which it loads by their files: of allocmark itself nothing."""
    import sys

    allowed = {*sys.stdlib_module_names, "allocmark_record_hook", "torch", "pynvml"}
    hook = SUITE / "allocmark" / "recording" / "hook"
    for path in [*hook.glob("*.py"), *(SUITE / "allocmark" / "watching").glob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                names = [node.module]
            else:
                continue
            for name in names:
                assert name.split(".")[0] in allowed, _place(path, node.lineno)


def test_the_start_uses_the_standard_library_only() -> None:
    """Of others only pip's own copies: pip is what a new environment holds."""
    import sys

    allowed = {*sys.stdlib_module_names, "starter", "pip"}
    for path in [SUITE / "start.py", *sorted((SUITE / "starter").glob("*.py"))]:
        for module, line in _modules(ast.parse(path.read_text())):
            assert module.split(".")[0] in allowed, _place(path, line)
