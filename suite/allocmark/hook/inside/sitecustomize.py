"""Found first by every Python that the command starts; standard library only.

The interpreter of the program may be any, with a sitecustomize of its own: that one is run too.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path


def _run_the_next() -> None:
    """Run the sitecustomize that would have been found without this folder."""
    here = Path(__file__).parent
    others = [entry for entry in sys.path if Path(entry or ".").resolve() != here.resolve()]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", others)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


with contextlib.suppress(Exception):  # A program must not fail because allocmark enters it.
    import allocmark_rank_hook  # type: ignore[import-not-found]
    import allocmark_record_hook  # type: ignore[import-not-found]

    allocmark_rank_hook.install()
    allocmark_record_hook.install()
_run_the_next()
