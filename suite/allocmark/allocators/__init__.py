"""Every allocator the suite knows, by name; a file of the user's own can add more."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from types import ModuleType

from allocmark.allocators.base import Allocator, Capability
from allocmark.allocators.checked import checked
from allocmark.system.errors import AllocmarkError, lookup

_NO_ALLOCATORS = ("base", "checked")
_NAME = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}")
"""A name is that of documents, and a word of command lines and of asv's own files."""


def registry(extra_file: Path | None = None) -> dict[str, Allocator]:
    """Return all allocators by name, in a fixed order: by their `order`, then by name.

    `extra_file` is a Python file of the user's with an ``ALLOCATORS`` tuple of its own. Raises
    `AllocmarkError` where it cannot be used, or for a name that is taken or cannot be a file's.
    """
    found: dict[str, Allocator] = {}
    extra = [] if extra_file is None else map(checked, _load(extra_file).ALLOCATORS)
    for allocator in (*_own(), *extra):
        if not _NAME.fullmatch(allocator.name):
            raise AllocmarkError(
                f"{allocator.name!r:.80} cannot be an allocator's name: use 1 to 64 ASCII "
                "letters, digits, '.', '_' and '-', not beginning with '.'"
            )
        if allocator.name in found:
            raise AllocmarkError(f"two allocators are named {allocator.name!r}: rename yours")
        found[allocator.name] = allocator
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


def names(*, having: Capability | None = None, **attributes: object) -> list[str]:
    """Return the names of the suite's own allocators of a kind: what axes and tables list.

    `attributes` are those of `Allocator` with their values, ``tier=Tier.BASE, tracked=True``. They
    are the same on every machine, ordered by their `order`, then as their files list them.
    """
    return [
        allocator.name
        for allocator in sorted(_own(), key=lambda allocator: allocator.order)
        if all(getattr(allocator, name) == value for name, value in attributes.items())
        and (having is None or having in allocator.capabilities)
    ]


def select(names: Iterable[str], extra_file: Path | None = None) -> list[Allocator]:
    """Return the allocators of those names. Raises `UnknownNameError`."""
    known = registry(extra_file)
    return [lookup("allocator", name, known) for name in names]


@cache
def _own() -> tuple[Allocator, ...]:
    """Return the allocators of this folder, as its files list them."""
    modules = [
        importlib.import_module(f"{__name__}.{info.name}")
        for info in pkgutil.iter_modules(__path__)
        if info.name not in _NO_ALLOCATORS
    ]
    return tuple(allocator for module in modules for allocator in module.ALLOCATORS)


def _load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("allocmark_user_allocators", path)
    if spec is None or spec.loader is None or not path.is_file():
        raise AllocmarkError(f"{path} is not a Python file with allocators")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        _check(module.ALLOCATORS)
    except (Exception, SystemExit) as error:
        raise AllocmarkError(
            f"{path} cannot be used: {type(error).__name__}: {error}; "
            "it must define ALLOCATORS, a tuple of Allocator instances"
        ) from error
    return module


def _check(allocators: object) -> None:
    """Raise `TypeError` for anything but a tuple or list of allocators with names."""
    if not isinstance(allocators, tuple | list):
        raise TypeError(f"ALLOCATORS is of type {type(allocators).__name__}")
    if not allocators:
        raise TypeError("ALLOCATORS is empty")
    for item in allocators:
        if not isinstance(item, Allocator):
            raise TypeError(f"ALLOCATORS holds {item!r:.80}")
        if not isinstance(getattr(item, "name", None), str):
            raise TypeError(f"an allocator of type {type(item).__name__} has no name")
