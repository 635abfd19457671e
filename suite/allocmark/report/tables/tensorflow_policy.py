"""TensorFlow's modes and PyTorch at the same points of the same program, alone and in pairs."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.claim import Judgement
from allocmark.report.axes import METER, POINT
from allocmark.report.table_spec import TableSpec, made, select
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


_ORDER = ("tf-greedy", "tf-growth", "tf-limit", "tf-async", "torch")
_MODE = Key("subject", Message("mode"), order=_ORDER)
_FIRST = Key("subject", Message("first"), order=_ORDER)
_SECOND = Key("second", show=_then, order=_ORDER)
_PROCESS = Key("process")
_SPECS = (
    TableSpec(
        name="held-bytes",
        title=Message("Device memory at each point"),
        about=Message("Beyond what was in use after the import, context and all."),
        metrics=[metrics.HELD_BYTES],
        down=(POINT, METER),
        across=_MODE,
        leading=True,
    ),
    TableSpec(
        name="since-device-bytes",
        title=Message("Device memory at each point, without the context"),
        about=Message("Beyond what was in use when the device had been created."),
        metrics=[metrics.SINCE_DEVICE_BYTES],
        down=(_MODE, POINT),
        across=METER,
        span=Message("disagreement"),
    ),
    TableSpec(
        name="taken-share",
        title=Message("Share of the card taken at each point"),
        about=Message("By NVML, of all the memory of the card."),
        metrics=[metrics.TAKEN_SHARE],
        down=(POINT,),
        across=_MODE,
    ),
    TableSpec(
        name="returned-bytes",
        title=Message("Given back: what the device has again of the live peak"),
        about=Message("Nothing is done between all dropped and 5 s later."),
        metrics=[metrics.RETURNED_BYTES],
        down=(Key("after", Message("when")), METER),
        across=_MODE,
        leading=True,
    ),
    TableSpec(
        name="counter-bytes",
        title=Message("What the framework's own counters say"),
        metrics=[metrics.COUNTER_BYTES],
        down=(Key("counter"), POINT),
        across=_MODE,
    ),
    TableSpec(
        name="host-bytes",
        title=Message("Host memory of the process"),
        about=Message("Resident, the framework's libraries among it."),
        metrics=[metrics.HOST_BYTES],
        down=(POINT,),
        across=_MODE,
    ),
    TableSpec(
        name="other-gpus-bytes",
        title=Message("Device memory taken on all other GPUs"),
        metrics=[metrics.OTHER_GPUS_BYTES],
        down=(POINT,),
        across=_MODE,
    ),
    TableSpec(
        name="seconds",
        title=Message("Time to the device and to the first tensor"),
        about=Message("In fresh processes, the framework already imported."),
        metrics=[metrics.DEVICE_SECONDS, metrics.FIRST_TENSOR_SECONDS],
        down=(METRIC,),
        across=_MODE,
    ),
    TableSpec(
        name="sizes",
        title=Message("What the program takes, and the limit that was set"),
        metrics=[metrics.LIVE_BYTES, metrics.LIMIT_BYTES],
        down=(METRIC,),
        across=_MODE,
        absent=Message("this mode has no limit"),
    ),
    TableSpec(
        name="ways",
        title=Message("Another way to set the mode"),
        about=Message("1: the same bytes at each point."),
        metrics=[metrics.MODES_AGREE],
        down=(_MODE, Key("way")),
        across=METRIC,
    ),
    TableSpec(
        name="steps",
        title=Message("Requests to the driver while 1 MiB tensors add up"),
        about=Message(
            "How often more was taken, the most at once, and the most held beyond live tensors."
        ),
        metrics=[metrics.STEPS, metrics.LARGEST_STEP_BYTES, metrics.BEYOND_NEED_BYTES],
        down=(METRIC,),
        across=_MODE,
    ),
    TableSpec(
        name="step-bytes",
        title=Message("The first requests in order"),
        metrics=[metrics.STEP_BYTES],
        down=(Key("step"),),
        across=_MODE,
        absent=Message("this mode made fewer requests"),
    ),
    TableSpec(
        name="above-limit",
        title=Message("What is held beyond the limit"),
        about=Message("At the live peak: all of it, the context, and the rest."),
        metrics=[metrics.ABOVE_LIMIT_BYTES],
        down=(_MODE, Key("why", Message("what"))),
        across=METER,
    ),
    TableSpec(
        name="virtual",
        title=Message("Two logical devices on one card"),
        about=Message(
            "What the first tensor on each takes: half of the limit was set for the first, "
            "a quarter "
            "for the second."
        ),
        metrics=[metrics.VIRTUAL_BYTES],
        down=(_MODE, Key("devices", Message("device"))),
        across=METER,
    ),
    TableSpec(
        name="combined",
        title=Message("Growth and limit together: what the first tensor takes"),
        metrics=[metrics.COMBINED_FIRST_TENSOR_BYTES],
        down=(_MODE, Key("setting")),
        across=METRIC,
    ),
    TableSpec(
        name="refused",
        title=Message("Settings that raise an error"),
        about=Message("1: refused."),
        metrics=[metrics.SETTING_REFUSED],
        down=(Key("setting"),),
        across=_MODE,
        absent=Message("not tried in this mode"),
    ),
    TableSpec(
        name="past-limit",
        title=Message("A tensor larger than the limit, or the card"),
        about=Message("Retry off: TensorFlow was told not to wait for memory."),
        metrics=[metrics.PAST_LIMIT_FAILED, metrics.PAST_LIMIT_SECONDS],
        down=(_MODE, Key("retry")),
        across=METRIC,
    ),
    TableSpec(
        name="pair-failed",
        title=Message("Two processes: whether the second fails"),
        about=Message("The first holds its tensors when the second starts."),
        metrics=[metrics.PAIR_FAILED],
        down=(_FIRST,),
        across=_SECOND,
    ),
    TableSpec(
        name="pair-seconds",
        title=Message("Two processes: time of the second to its tensors, or to its failure"),
        metrics=[metrics.PAIR_SECONDS],
        down=(_FIRST,),
        across=_SECOND,
    ),
    TableSpec(
        name="pair-live-bytes",
        title=Message("Two processes: tensors that each has got"),
        metrics=[metrics.PAIR_LIVE_BYTES],
        down=(_FIRST, _PROCESS),
        across=_SECOND,
    ),
    TableSpec(
        name="pair-bytes",
        title=Message("Two processes: what each holds"),
        about=Message("The first before the second comes, the second on top of that."),
        metrics=[metrics.PAIR_BYTES],
        down=(_FIRST, _PROCESS, METER),
        across=_SECOND,
    ),
    TableSpec(
        name="shared-bytes",
        title=Message("Two processes of a kind: what they share"),
        about=Message("By how much the second adds less than the first."),
        metrics=[metrics.SHARED_BYTES],
        down=(_MODE,),
        across=METRIC,
    ),
    TableSpec(
        name="ipc",
        title=Message("Memory handed to another process"),
        about=Message("1: exported, and opened by a second process of the kind."),
        metrics=[metrics.IPC_EXPORTED, metrics.IPC_OPENED],
        down=(_MODE, Key("way")),
        across=METRIC,
    ),
    TableSpec(
        name="ipc-bytes",
        title=Message("Memory handed to another process: what opening it adds"),
        metrics=[metrics.IPC_ADDED_BYTES],
        down=(_MODE,),
        across=Key("way"),
    ),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the tables of one process, then those of two, then what users are told."""
    return [*made(panel, metrics.EXPERIMENT, _SPECS), *_errors(panel)]


def _errors(panel: Panel) -> list[Table]:
    """Return what was raised where: the class and the first line of each error."""
    lines = [
        (source.document.subject, name.removeprefix(notes.ERROR), text)
        for _, source in panel.sources(metrics.EXPERIMENT)
        for name, text in _notes(source.document.conditions.get("notes")).items()
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
        conditions=conditions(panel.store, select(panel, metrics.EXPERIMENT, {})),
        emulated=panel.emulated,
    )
    return [table]


def _notes(notes: object) -> dict[str, str]:
    return notes if isinstance(notes, dict) else {}
