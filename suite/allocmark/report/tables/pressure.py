"""Pressure: what each counter shows, what stays and why, and the way to a failed allocation."""

from __future__ import annotations

from allocmark.store.grid import BYTES, SUBJECT, Key, plain
from allocmark.store.panel import Panel
from allocmark.store.section import make
from allocmark.store.table import Table

TITLE = "Behaviour under memory pressure"

_PROBE = "pressure"
_POINT = Key("point", "point")


def _peaks(value: object) -> str:
    return f"{plain(value)} x live peak"


_WORKLOAD = Key("workload", "workload")
_CAPACITY = Key("capacity_ratio", "capacity", _peaks)

UNCOUNTED = "In expandable segments torch counts no inactive split bytes"
"""Those are free and lie beside live ones."""
_COUNTERS = (
    (
        "shown_bytes",
        "counter",
        "What each counter shows",
        "A GiB of blocks is taken, half of it freed, the cache emptied, the rest freed, the cache "
        f"emptied again. {UNCOUNTED}, which memory_summary calls non-releasable: 0 there says "
        "nothing.",
    ),
    ("kept_bytes", "why", "What the process still holds, and why", ""),
    (
        "summary_agrees",
        "subject",
        "Whether the framework's summary says what its block map says",
        "",
    ),
)
_TOWARDS_OOM = (
    ("completed", "Towards an OOM: runs that completed"),
    ("capacity_bytes", "Towards an OOM: capacity"),
    ("failed_event", "Towards an OOM: event that failed"),
    ("failed_request_bytes", "Towards an OOM: bytes asked for when it failed"),
    ("failed_cached_bytes", "Towards an OOM: bytes cached and free when it failed"),
    ("failed_largest_free_bytes", "Towards an OOM: largest cached block when it failed"),
    ("failed_device_free_bytes", "Towards an OOM: bytes free on the device when it failed"),
    ("retries", "Towards an OOM: retries (num_alloc_retries)"),
    ("retries_before", "Towards an OOM: retries seen 100 events before the end"),
    ("cache_share_max", "Towards an OOM: largest cache share"),
    ("cache_share_max_before", "Towards an OOM: largest cache share 100 events before the end"),
    ("cache_share_last_before", "Towards an OOM: last cache share 100 events before the end"),
    (
        "inactive_split_bytes_max_before",
        "Towards an OOM: most free bytes in split segments 100 events before the end",
    ),
    (
        "reserved_share_last_before",
        "Towards an OOM: last reserved bytes over capacity 100 events before the end",
    ),
    (
        "unreturnable_share_max_before",
        "Towards an OOM: most live and inactive split "
        "bytes over capacity 100 events before the end",
    ),
    ("first_retry_event", "Towards an OOM: first event with a retry"),
)
_LIVE_ALONE = f"{UNCOUNTED}: there, the figure is of live ones alone."
_OOM_ABOUT = {
    "inactive_split_bytes_max_before": f"{UNCOUNTED}: 0 there does not say that there are none.",
    "unreturnable_share_max_before": _LIVE_ALONE,
    "unreturnable_share": _LIVE_ALONE,
}
"""What is to be known of a measure, or of a sign."""
_FIRST_ABOVE = (
    ("cache_share", 0.3, "Towards an OOM: first event with a cache share over 30 %"),
    (
        "unreturnable_share",
        0.9,
        "Towards an OOM: first event with live and inactive split bytes over 90 % of the capacity",
    ),
)


def tables(panel: Panel) -> list[Table]:
    """Return the tables of counters, then one for each measure of the runs towards an OOM."""
    made = [
        make(
            panel,
            _PROBE,
            {"metric": metric},
            down=(SUBJECT,) if axis == SUBJECT.column else (SUBJECT, Key(axis, axis)),
            across=_POINT,
            name=metric,
            title=title,
            about=about,
        )
        for metric, axis, title, about in _COUNTERS
    ]
    made.append(
        make(
            panel,
            _PROBE,
            {"metric": "first_reserved_bytes"},
            down=(SUBJECT,),
            across=BYTES,
            name="first-reserved-bytes",
            title="What one request takes from the driver",
            about="From an empty cache, by the size of the request.",
        )
    )
    made += [
        make(
            panel,
            _PROBE,
            {"metric": metric},
            down=(SUBJECT, _WORKLOAD),
            across=_CAPACITY,
            name=metric,
            title=title,
            about=_OOM_ABOUT.get(metric, ""),
        )
        for metric, title in _TOWARDS_OOM
    ]
    made += [
        make(
            panel,
            _PROBE,
            {"metric": "first_above_event", "sign": sign, "above": above},
            down=(SUBJECT, _WORKLOAD),
            across=_CAPACITY,
            name=f"first-{sign.replace('_', '-')}-event",
            title=title,
            about=_OOM_ABOUT.get(sign, ""),
        )
        for sign, above, title in _FIRST_ABOVE
    ]
    return [table for table in made if table is not None]
