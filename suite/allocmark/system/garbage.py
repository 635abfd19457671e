"""Python's garbage collector off for a while: it walks every object, whenever it chooses."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection(*, collect_first: bool = False) -> Iterator[None]:
    """Keep the collector from running; it is on again afterwards where it was on before.

    Reference counts still free at once.
    """
    was_enabled = gc.isenabled()
    if collect_first:
        gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
