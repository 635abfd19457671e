"""Pressure: what each counter shows, what stays and why, and the way to a failed allocation."""

from __future__ import annotations

from allocmark.report.axes import POINT, WORKLOAD
from allocmark.report.table_spec import TableSpec
from allocmark.schema.metric import Metric
from allocmark.schema.metrics import pressure as metrics
from allocmark.store.grid import BYTES, SUBJECT, Key, plain
from allocmark.system.message import Message, Text

TITLE = Message("Behaviour under memory pressure")
ORDER = 150


def _peaks(value: object) -> Text:
    return Message("{ratio} x live peak", ratio=plain(value))


_CAPACITY = Key("capacity_ratio", Message("capacity"), _peaks)


def _of_run(metric: Metric, title: Text, about: Text = "", leading: bool = False) -> TableSpec:
    return TableSpec(
        [metric],
        Message("Towards an OOM: {what}", what=title),
        (SUBJECT, WORKLOAD),
        _CAPACITY,
        about=about,
        leading=leading,
    )


def _first_above(sign: str, above: float, title: Text, about: Text = "") -> TableSpec:
    return TableSpec(
        [metrics.FIRST_ABOVE_EVENT],
        Message("Towards an OOM: {what}", what=title),
        (SUBJECT, WORKLOAD),
        _CAPACITY,
        about=about,
        name=f"first-{sign.replace('_', '-')}-event",
        where={"sign": sign, "above": above},
    )


_LIVE_ALONE = Message(
    "In expandable segments torch counts no inactive split bytes: there, the figure is of live "
    "ones alone."
)
TABLES = (
    TableSpec(
        [metrics.SHOWN_BYTES],
        Message("What each counter shows"),
        (SUBJECT, Key("counter")),
        POINT,
        about=Message(
            "A GiB of blocks is taken, half of it freed, the cache emptied, the rest freed, the "
            "cache emptied again. In expandable segments torch counts no inactive split bytes, "
            'which memory_summary calls non-releasable: 0 means "not counted".'
        ),
        leading=True,
    ),
    TableSpec(
        [metrics.KEPT_BYTES],
        Message("What the process still holds, and why"),
        (SUBJECT, Key("why")),
        POINT,
        leading=True,
    ),
    TableSpec(
        [metrics.SUMMARY_AGREES],
        Message("Whether the framework's summary says what its block map says"),
        (SUBJECT,),
        POINT,
    ),
    TableSpec(
        [metrics.FIRST_RESERVED_BYTES],
        Message("What one request takes from the driver"),
        (SUBJECT,),
        BYTES,
        about=Message("From an empty cache, by the size of the request."),
    ),
    _of_run(metrics.COMPLETED, Message("runs that completed"), leading=True),
    _of_run(metrics.CAPACITY_BYTES, Message("capacity")),
    _of_run(metrics.FAILED_EVENT, Message("event that failed")),
    _of_run(metrics.FAILED_REQUEST_BYTES, Message("bytes asked for when it failed")),
    _of_run(metrics.FAILED_CACHED_BYTES, Message("bytes cached and free when it failed")),
    _of_run(metrics.FAILED_LARGEST_FREE_BYTES, Message("largest cached block when it failed")),
    _of_run(metrics.FAILED_DEVICE_FREE_BYTES, Message("bytes free on the device when it failed")),
    _of_run(metrics.RETRIES, Message("retries (num_alloc_retries)")),
    _of_run(metrics.RETRIES_BEFORE, Message("retries seen 100 events before the end")),
    _of_run(metrics.CACHE_SHARE_MAX, Message("largest cache share")),
    _of_run(
        metrics.CACHE_SHARE_MAX_BEFORE, Message("largest cache share 100 events before the end")
    ),
    _of_run(metrics.CACHE_SHARE_LAST_BEFORE, Message("last cache share 100 events before the end")),
    _of_run(
        metrics.INACTIVE_SPLIT_BYTES_MAX_BEFORE,
        Message("most free bytes in split segments 100 events before the end"),
        Message(
            "In expandable segments torch counts no inactive split bytes: 0 there does not say "
            "that there are none."
        ),
    ),
    _of_run(
        metrics.RESERVED_SHARE_LAST_BEFORE,
        Message("last reserved bytes over capacity 100 events before the end"),
    ),
    _of_run(
        metrics.UNRETURNABLE_SHARE_MAX_BEFORE,
        Message("most live and inactive split bytes over capacity 100 events before the end"),
        _LIVE_ALONE,
    ),
    _of_run(metrics.FIRST_RETRY_EVENT, Message("first event with a retry")),
    _first_above(metrics.CACHE_SHARE, 0.3, Message("first event with a cache share over 30 %")),
    _first_above(
        metrics.UNRETURNABLE_SHARE,
        0.9,
        Message("first event with live and inactive split bytes over 90 % of the capacity"),
        _LIVE_ALONE,
    ),
)
