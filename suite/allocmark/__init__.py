"""allocmark: how GPU memory is really allocated, measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocmark.explain.watch.watcher import watch as watch
    from allocmark.replays.api import replay as replay

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Return `replay` or `watch`, imported when used, since every child imports this package."""
    if name == "replay":
        from allocmark.replays.api import replay

        return replay
    if name == "watch":
        from allocmark.explain.watch.watcher import watch

        return watch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
