"""allocmark: how GPU memory is really allocated, measured."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from allocmark.replaying.api import replay as replay
    from allocmark.watching.watcher import watch as watch

__version__ = "0.1.0"

# Here and not in the programs: what Python imports first for any of them is this package. It says
# "-m" for the program until it has found it, and what follows "-m" on the command line is its name.
if sys.argv[:1] == ["-m"]:
    _program = sys.orig_argv[-len(sys.argv)].removeprefix("-m")
    if _program.partition(".")[0] == __name__:
        from allocmark.stopping import stop_while_imported

        stop_while_imported()


def __getattr__(name: str) -> Any:
    """Return `replay` or `watch`, imported when used, since every child imports this package."""
    if name == "replay":
        from allocmark.replaying.api import replay

        return replay
    if name == "watch":
        from allocmark.watching.watcher import watch

        return watch
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
