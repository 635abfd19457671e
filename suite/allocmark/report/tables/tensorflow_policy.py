"""TensorFlow's modes and PyTorch at the same points of the same program, alone and in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.claim import Judgement
from allocmark.experiments.shared.framework_programs import SUBJECTS
from allocmark.report.axes import METER, POINT
from allocmark.report.table_spec import TableSpec, made
from allocmark.schema import notes
from allocmark.schema.metrics import tensorflow_policy as metrics
from allocmark.store.cell_conditions import conditions
from allocmark.store.grid import METRIC, Key, plain
from allocmark.store.panel import Panel
from allocmark.store.table import Table, label
from allocmark.system.message import Message, Recorded, Text

TITLE = Message("TensorFlow's modes beside PyTorch")
ORDER = 160


def _then(value: object) -> Text:
    return Message("then {mode}", mode=plain(value))


_ORDER = SUBJECTS
_MODE = Key("subject", Message("mode"), order=_ORDER)
_FIRST = Key("subject", Message("first"), order=_ORDER)
_SECOND = Key("second", show=_then, order=_ORDER)
_PROCESS = Key("process")
_SPECS = (
    TableSpec(
        [metrics.HELD_BYTES],
        Message("Device memory at each point"),
        (POINT, METER),
        _MODE,
        about=Message("Relative to usage after import (includes context)."),
        leading=True,
    ),
    TableSpec(
        [metrics.SINCE_DEVICE_BYTES],
        Message("Device memory at each point, without the context"),
        (_MODE, POINT),
        METER,
        about=Message("Relative to usage once the device has been created."),
        span=Message("disagreement"),
    ),
    TableSpec(
        [metrics.TAKEN_SHARE],
        Message("Share of the card taken at each point"),
        (POINT,),
        _MODE,
        about=Message("By NVML, of all the memory of the card."),
    ),
    TableSpec(
        [metrics.RETURNED_BYTES],
        Message("Memory returned to the driver, of the live peak"),
        (Key("after", Message("when")), METER),
        _MODE,
        about=Message("Nothing is done between all dropped and 5 s later."),
        leading=True,
    ),
    TableSpec(
        [metrics.COUNTER_BYTES],
        Message("What the framework's own counters say"),
        (Key("counter"), POINT),
        _MODE,
    ),
    TableSpec(
        [metrics.HOST_BYTES],
        Message("Host memory of the process"),
        (POINT,),
        _MODE,
        about=Message("Resident, the framework's libraries among it."),
    ),
    TableSpec(
        [metrics.OTHER_GPUS_BYTES],
        Message("Device memory taken on all other GPUs"),
        (POINT,),
        _MODE,
    ),
    TableSpec(
        [metrics.DEVICE_SECONDS, metrics.FIRST_TENSOR_SECONDS],
        Message("Time to the device and to the first tensor"),
        (METRIC,),
        _MODE,
        about=Message("In fresh processes, the framework already imported."),
        name="seconds",
    ),
    TableSpec(
        [metrics.LIVE_BYTES, metrics.LIMIT_BYTES],
        Message("What the program takes, and the limit that was set"),
        (METRIC,),
        _MODE,
        name="sizes",
        absent=Message("this mode has no limit"),
    ),
    TableSpec(
        [metrics.MODES_AGREE],
        Message("Another way to set the mode"),
        (_MODE, Key("way")),
        METRIC,
        about=Message("1: the same bytes at each point."),
        name="ways",
    ),
    TableSpec(
        [metrics.STEPS, metrics.LARGEST_STEP_BYTES, metrics.BEYOND_NEED_BYTES],
        Message("Requests to the driver while 1 MiB tensors add up"),
        (METRIC,),
        _MODE,
        about=Message(
            "How often more was taken, the most at once, and the most held beyond live tensors."
        ),
    ),
    TableSpec(
        [metrics.STEP_BYTES],
        Message("The first requests in order"),
        (Key("step"),),
        _MODE,
        absent=Message("this mode made fewer requests"),
    ),
    TableSpec(
        [metrics.ABOVE_LIMIT_BYTES],
        Message("What is held beyond the limit"),
        (_MODE, Key("why", Message("what"))),
        METER,
        about=Message("At the live peak: all of it, the context, and the rest."),
        name="above-limit",
    ),
    TableSpec(
        [metrics.VIRTUAL_BYTES],
        Message("Two logical devices on one card"),
        (_MODE, Key("devices", Message("device"))),
        METER,
        about=Message(
            "What the first tensor on each takes: half of the limit was set for the first, "
            "a quarter "
            "for the second."
        ),
        name="virtual",
    ),
    TableSpec(
        [metrics.COMBINED_FIRST_TENSOR_BYTES],
        Message("Growth and limit together: what the first tensor takes"),
        (_MODE, Key("setting")),
        METRIC,
        name="combined",
    ),
    TableSpec(
        [metrics.SETTING_REFUSED],
        Message("Settings that raise an error"),
        (Key("setting"),),
        _MODE,
        about=Message("1: refused."),
        name="refused",
        absent=Message("not tried in this mode"),
    ),
    TableSpec(
        [metrics.PAST_LIMIT_FAILED, metrics.PAST_LIMIT_SECONDS],
        Message("A tensor larger than the limit, or the card"),
        (_MODE, Key("retry")),
        METRIC,
        about=Message("Retry off: TensorFlow was told not to wait for memory."),
        name="past-limit",
    ),
    TableSpec(
        [
            metrics.RELEASE_DROPPED_BYTES,
            metrics.RELEASE_REQUEST_BYTES,
            metrics.RELEASE_FAILED,
            metrics.RELEASED_BYTES,
        ],
        Message("A request that would not fit beside what was dropped"),
        (_MODE, Key("collection", Message("garbage collection"))),
        METRIC,
        about=Message(
            "Within 2 GiB. Off: TF_ENABLE_GPU_GARBAGE_COLLECTION=false. Released: at least so much "
            "went back to the driver for it."
        ),
        name="release",
        leading=True,
    ),
    TableSpec(
        [metrics.PAIR_FAILED],
        Message("Two processes: whether the second fails"),
        (_FIRST,),
        _SECOND,
        about=Message("The first holds its tensors when the second starts."),
    ),
    TableSpec(
        [metrics.PAIR_SECONDS],
        Message("Two processes: time of the second to its tensors, or to its failure"),
        (_FIRST,),
        _SECOND,
    ),
    TableSpec(
        [metrics.PAIR_LIVE_BYTES],
        Message("Two processes: tensors that each has got"),
        (_FIRST, _PROCESS),
        _SECOND,
    ),
    TableSpec(
        [metrics.PAIR_BYTES],
        Message("Two processes: what each holds"),
        (_FIRST, _PROCESS, METER),
        _SECOND,
        about=Message("The first before the second comes, the second on top of that."),
    ),
    TableSpec(
        [metrics.SHARED_BYTES],
        Message("Two processes of a kind: what they share"),
        (_MODE,),
        METRIC,
        about=Message("By how much the second adds less than the first."),
    ),
    TableSpec(
        [metrics.IPC_EXPORTED, metrics.IPC_OPENED],
        Message("Memory handed to another process"),
        (_MODE, Key("way")),
        METRIC,
        about=Message("1: exported, and opened by a second process of the kind."),
        name="ipc",
    ),
    TableSpec(
        [metrics.IPC_ADDED_BYTES],
        Message("Memory handed to another process: what opening it adds"),
        (_MODE,),
        Key("way"),
        name="ipc-bytes",
    ),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the tables of one process, then those of two, then what users are told."""
    return [*made(panel, _SPECS), *_errors(panel)]


def _errors(panel: Panel) -> list[Table]:
    """Return what was raised where: the class and the first line of each error."""
    lines = [
        (source.document.subject, name.removeprefix(notes.ERROR), text)
        for _, source in panel.sources(metrics.EXPERIMENT)
        for name, text in _notes(source.document.conditions.get(notes.NOTES)).items()
        if name.startswith(notes.ERROR)
    ]
    if not lines:
        return []
    lines.sort(key=lambda line: (_MODE.rank(line[0]), line[1]))
    table = Table(
        id=f"{metrics.EXPERIMENT}-messages",
        title=Message("What a user is told"),
        columns=(Message("mode"), Message("when"), Message("error")),
        rows=tuple(tuple(label(Recorded(text)) for text in line) for line in lines),
        about=Message("The class and the first line of each error."),
        conditions=conditions(panel.store, panel.figures(metrics.EXPERIMENT)),
    )
    return [table]


def _notes(notes: object) -> dict[str, str]:
    return notes if isinstance(notes, dict) else {}
