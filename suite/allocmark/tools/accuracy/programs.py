"""The programs: scripts of ``examples/accuracy``, and any other script that is named by its path.

A program is one file that runs by itself (``python FILE``). Its name is the file's, its description
the first line of its docstring, and the libraries that it needs are those that it imports.
"""

from __future__ import annotations

import ast
import sys
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from allocmark.system.errors import AllocmarkError, UnknownNameError

FOLDER = Path(__file__).parents[4] / "examples" / "accuracy"


@dataclass(frozen=True, slots=True)
class Program:
    """One script. `modules` are all that it imports at its top, but for the standard library's."""

    name: str
    path: Path
    description: str
    modules: tuple[str, ...]

    @property
    def libraries(self) -> tuple[str, ...]:
        """The packages that it needs, by the names they are imported by."""
        return tuple(dict.fromkeys(module.partition(".")[0] for module in self.modules))

    @property
    def missing(self) -> str | None:
        """Why it cannot run here, None where all that it imports is there."""
        lacking = [name for name in self.libraries if find_spec(name) is None]
        return f"{', '.join(lacking)} is not installed" if lacking else None

    def versions(self) -> dict[str, str]:
        """Return the version of each package that it needs, of those that are installed."""
        distributions = metadata.packages_distributions()
        found = {}
        for name in self.libraries:
            for distribution in distributions.get(name, [])[:1]:
                found[distribution] = metadata.version(distribution)
        return found


def every() -> dict[str, Program]:
    """Return the programs of the project by name."""
    return {path.stem: read(path) for path in sorted(FOLDER.glob("*.py"))}


def chosen(names: list[str] | None) -> list[Program]:
    """Return these programs, each a name of `every` or the path of a script; all without names.

    Raises `UnknownNameError` for a name that is neither.
    """
    known = every()
    found = []
    for name in names or list(known):
        if name not in known and not Path(name).is_file():
            raise UnknownNameError("program", name, [*known, "or the path of a script"])
        found.append(known[name] if name in known else read(Path(name)))
    return found


def read(path: Path) -> Program:
    """Return the program in a file. Raises `AllocmarkError` where it is no Python."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError) as error:
        raise AllocmarkError(f"{path} cannot be read as a program: {error}") from error
    first, *_ = (ast.get_docstring(tree) or path.stem).splitlines()
    modules: dict[str, None] = {}
    for node in tree.body:
        if isinstance(node, ast.Import):
            modules |= dict.fromkeys(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            modules[node.module] = None
    others = (m for m in modules if m.partition(".")[0] not in sys.stdlib_module_names)
    return Program(path.stem, path, first, tuple(others))
