"""TensorFlow's modes and PyTorch at the same points of the same program, alone and in pairs."""

from __future__ import annotations

from dataclasses import dataclass

from allocmark.schema.documents import ERROR_NOTE
from allocmark.store.cell_conditions import conditions
from allocmark.store.grid import METRIC, Key, plain
from allocmark.store.panel import Panel
from allocmark.store.section import Where, make, select, with_span
from allocmark.store.table import Table, label

TITLE = "TensorFlow's modes beside PyTorch"

_PROBE = "tensorflow_policy"
_METERS = {
    "nvml_process": "NVML process",
    "nvml_device": "NVML device",
    "mem_get_info": "cudaMemGetInfo",
}
_ORDER = ("tf-greedy", "tf-growth", "tf-limit", "tf-async", "torch")
_MODE = Key("subject", "mode", order=_ORDER)
_FIRST = Key("subject", "first", order=_ORDER)
_SECOND = Key("second", "second", lambda value: f"then {plain(value)}", _ORDER)
_METER = Key(
    "axis_meter", "meter", lambda value: _METERS.get(plain(value), plain(value)), tuple(_METERS)
)
_POINT = Key("point", "point")
_PROCESS = Key("process", "process")


@dataclass(frozen=True, slots=True)
class _Asked:
    """One table: which metrics, laid out how; `span` adds by how much a row's cells differ.

    `absent`: why a mode has no figure that another has; a child that died has told its own reason.
    """

    name: str
    metrics: tuple[str, ...]
    title: str
    about: str
    down: tuple[Key, ...]
    across: Key
    span: str = ""
    absent: str = ""


_TABLES = (
    _Asked(
        "held-bytes",
        ("held_bytes",),
        "Device memory at each point",
        "Beyond what was in use after the import, context and all.",
        (_POINT, _METER),
        _MODE,
    ),
    _Asked(
        "since-device-bytes",
        ("since_device_bytes",),
        "Device memory at each point, without the context",
        "Beyond what was in use when the device had been created.",
        (_MODE, _POINT),
        _METER,
        "disagreement",
    ),
    _Asked(
        "taken-share",
        ("taken_share",),
        "Share of the card taken at each point",
        "By NVML, of all the memory of the card.",
        (_POINT,),
        _MODE,
    ),
    _Asked(
        "returned-bytes",
        ("returned_bytes",),
        "Given back: what the device has again of the live peak",
        "Nothing is done between all dropped and 5 s later.",
        (Key("after", "when"), _METER),
        _MODE,
    ),
    _Asked(
        "counter-bytes",
        ("counter_bytes",),
        "What the framework's own counters say",
        "",
        (Key("counter", "counter"), _POINT),
        _MODE,
    ),
    _Asked(
        "host-bytes",
        ("host_bytes",),
        "Host memory of the process",
        "Resident, the framework's libraries among it.",
        (_POINT,),
        _MODE,
    ),
    _Asked(
        "other-gpus-bytes",
        ("other_gpus_bytes",),
        "Device memory taken on all other GPUs",
        "",
        (_POINT,),
        _MODE,
    ),
    _Asked(
        "seconds",
        ("device_seconds", "first_tensor_seconds"),
        "Time to the device and to the first tensor",
        "In fresh processes, the framework already imported.",
        (METRIC,),
        _MODE,
    ),
    _Asked(
        "sizes",
        ("live_bytes", "limit_bytes"),
        "What the program takes, and the limit that was set",
        "",
        (METRIC,),
        _MODE,
        absent="this mode has no limit",
    ),
    _Asked(
        "ways",
        ("modes_agree",),
        "Another way to set the mode",
        "1: the same bytes at each point.",
        (_MODE, Key("way", "way")),
        METRIC,
    ),
    _Asked(
        "steps",
        ("steps", "largest_step_bytes", "beyond_need_bytes"),
        "Requests to the driver while 1 MiB tensors add up",
        "How often more was taken, the most at once, and the most held beyond live tensors.",
        (METRIC,),
        _MODE,
    ),
    _Asked(
        "step-bytes",
        ("step_bytes",),
        "The first requests in order",
        "",
        (Key("step", "step"),),
        _MODE,
        absent="this mode made fewer requests",
    ),
    _Asked(
        "above-limit",
        ("above_limit_bytes",),
        "What is held beyond the limit",
        "At the live peak: all of it, the context, and the rest.",
        (_MODE, Key("why", "what")),
        _METER,
    ),
    _Asked(
        "virtual",
        ("virtual_bytes",),
        "Two logical devices on one card",
        "What the first tensor on each takes: half of the limit was set for the first, a quarter "
        "for the second.",
        (_MODE, Key("devices", "device")),
        _METER,
    ),
    _Asked(
        "combined",
        ("combined_first_tensor_bytes",),
        "Growth and limit together: what the first tensor takes",
        "",
        (_MODE, Key("setting", "setting")),
        METRIC,
    ),
    _Asked(
        "refused",
        ("setting_refused",),
        "Settings that raise an error",
        "1: refused.",
        (Key("setting", "setting"),),
        _MODE,
        absent="not tried in this mode",
    ),
    _Asked(
        "past-limit",
        ("past_limit_failed", "past_limit_seconds"),
        "A tensor larger than the limit, or the card",
        "Retry off: TensorFlow was told not to wait for memory.",
        (_MODE, Key("retry", "retry")),
        METRIC,
    ),
    _Asked(
        "pair-failed",
        ("pair_failed",),
        "Two processes: whether the second fails",
        "The first holds its tensors when the second starts.",
        (_FIRST,),
        _SECOND,
    ),
    _Asked(
        "pair-seconds",
        ("pair_seconds",),
        "Two processes: time of the second to its tensors, or to its failure",
        "",
        (_FIRST,),
        _SECOND,
    ),
    _Asked(
        "pair-live-bytes",
        ("pair_live_bytes",),
        "Two processes: tensors that each has got",
        "",
        (_FIRST, _PROCESS),
        _SECOND,
    ),
    _Asked(
        "pair-bytes",
        ("pair_bytes",),
        "Two processes: what each holds",
        "The first before the second comes, the second on top of that.",
        (_FIRST, _PROCESS, _METER),
        _SECOND,
    ),
    _Asked(
        "shared-bytes",
        ("shared_bytes",),
        "Two processes of a kind: what they share",
        "By how much the second adds less than the first.",
        (_MODE,),
        METRIC,
    ),
    _Asked(
        "ipc",
        ("ipc_exported", "ipc_opened"),
        "Memory handed to another process",
        "1: exported, and opened by a second process of the kind.",
        (_MODE, Key("way", "way")),
        METRIC,
    ),
    _Asked(
        "ipc-bytes",
        ("ipc_added_bytes",),
        "Memory handed to another process: what opening it adds",
        "",
        (_MODE,),
        Key("way", "way"),
    ),
)


def tables(panel: Panel) -> list[Table]:
    """Return the tables of one process, then those of two, then what users are told."""
    made = [_made(panel, asked) for asked in _TABLES]
    return [table for table in (*made, _messages(panel)) if table is not None]


def _made(panel: Panel, asked: _Asked) -> Table | None:
    where: Where = {"metric": asked.metrics}
    table = make(
        panel,
        _PROBE,
        where,
        down=asked.down,
        across=asked.across,
        name=asked.name,
        title=asked.title,
        about=asked.about,
        absent=asked.absent,
    )
    return with_span(table, asked.span) if table and asked.span else table


def _messages(panel: Panel) -> Table | None:
    """Return what was raised where: the class and the first line of each error."""
    lines = [
        (source.document.subject, name.removeprefix(ERROR_NOTE), text)
        for _, source in panel.sources(_PROBE)
        for name, text in _notes(source.document.conditions.get("notes")).items()
        if name.startswith(ERROR_NOTE)
    ]
    if not lines:
        return None
    lines.sort(key=lambda line: (_MODE.rank(line[0]), line[1]))
    return Table(
        f"{_PROBE}-messages",
        "What a user is told",
        ("mode", "when", "error"),
        tuple(tuple(map(label, line)) for line in lines),
        "The class and the first line of each error.",
        conditions(panel.store, select(panel, _PROBE, {})),
        panel.emulated,
    )


def _notes(notes: object) -> dict[str, str]:
    return notes if isinstance(notes, dict) else {}
