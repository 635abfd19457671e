"""Hears of the import of torch, without importing it."""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

_listeners: list[Callable[[Any], None]] = []


def when_imported(listener: Callable[[Any], None]) -> None:
    """Call a listener with torch as soon as it has been imported; a fault of it is passed over."""
    if not _listeners:
        sys.meta_path.insert(0, _Finder())
    _listeners.append(listener)


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != "torch":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            for listener in _listeners:
                with contextlib.suppress(Exception):
                    listener(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
