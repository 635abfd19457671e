"""Runs towards an OOM that ended before anything was read early enough to act on.

Whether a sign was seen is told by readings at least `LEAD_EVENTS` events before a run's end. The
first reading is that of event 0, so a run whose failed event is an earlier one has no such reading.
Documents written before the probe said so hold 0 there, which nobody read, or say that the
allocator does not tell. Their runs' own ``failed_event`` shows which figures those are, and a
record is not edited: they become empty cells here, once, before tables, verdicts and pictures are
made of a store, with the words that the probe has for them today. (Runs that completed need none of
this: every workload of the suite is longer.)
"""

from __future__ import annotations

import math

import pandas as pd

from allocmark.store.frame import Store

LEAD_EVENTS = 100
NO_LEAD = f"it ended before event {LEAD_EVENTS}: no reading lies {LEAD_EVENTS} events before that"
_PROBE, _FAILED, _ENDING = "pressure", "failed_event", "_before"
_RUN = ("document", "workload", "capacity_ratio")
_NUMBERS = ("value", "low", "high", "minimum", "maximum")


def without_unread(store: Store) -> Store:
    """Return the store with an empty cell for each sign that nobody can have read."""
    rows = store.figures
    if not set(_RUN) <= set(rows.columns):
        return store
    own = rows.loc[rows["probe"] == _PROBE, [*_RUN, "metric", "value"]]
    failed = own[(own["metric"] == _FAILED) & (own["value"] < LEAD_EVENTS)]
    if failed.empty:
        return store
    signs = [name for name in own["metric"].unique() if name.endswith(_ENDING)]
    ended = pd.MultiIndex.from_frame(failed[list(_RUN)].astype({"workload": str}))
    own = own[own["metric"].isin(signs)]
    places = pd.MultiIndex.from_frame(own[list(_RUN)].astype({"workload": str}))
    unread = own.index[places.isin(ended)]
    changed = rows.copy()
    if NO_LEAD not in (reasons := changed["reason"].cat).categories:
        changed["reason"] = reasons.add_categories([NO_LEAD])
    changed.loc[unread, list(_NUMBERS)] = math.nan
    changed.loc[unread, "n"] = 0.0
    changed.loc[unread, "flags"] = None
    changed.loc[unread, "reason"] = NO_LEAD
    return Store(store.root, changed, store.sources, store.left_out)
