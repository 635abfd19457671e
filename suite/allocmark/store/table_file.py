"""Every figure of a results folder in one table, for pandas, DuckDB and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pandas as pd

from allocmark.schema.documents import write_whole
from allocmark.store import frame
from allocmark.store.frame import Store
from allocmark.system.errors import lookup


def write(results: Path, out: Path) -> Store:
    """Write the table, whole or not at all; its ending says as what. Returns what was read.

    Raises `AllocmarkError` for another ending, or where there are no usable results.
    """
    written = lookup("ending", out.suffix, WRITERS)
    store = frame.load(results)
    write_whole(out, written(store))
    return store


def csv(store: Store) -> bytes:
    """Return every figure as CSV."""
    return _plain(store).to_csv(index=False).encode()


def _plain(store: Store) -> pd.DataFrame:
    """Return the figures of a store, each column of one kind: numbers, truth values or text."""
    figures = store.figures.drop(columns="document")
    for name in figures.select_dtypes("object"):
        figures[name] = figures[name].map(str, na_action="ignore")
    return figures


def _parquet(store: Store) -> bytes:
    return _plain(store).to_parquet(None, index=False)


WRITERS: Mapping[str, Callable[[Store], bytes]] = {".csv": csv, ".parquet": _parquet}
"""By the ending of the file."""
