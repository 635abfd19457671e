"""Several GPUs: what programs take on each, stray contexts, peer access, copies between GPUs."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.core.claim import Judgement
from allocmark.report.axes import METER, POINT
from allocmark.report.table_spec import TableSpec, made
from allocmark.schema.metrics import multi_gpu as metrics
from allocmark.store.grid import BYTES, METRIC, SUBJECT, Key, plain
from allocmark.store.panel import Panel
from allocmark.store.table import Table
from allocmark.system.message import Message, Text

TITLE = Message("Several GPUs")
ORDER = 170


def _gpu(value: object) -> Text:
    return Message("GPU {number}", number=number) if (number := plain(value)) else ""


def _of_gpu(value: object) -> Text:
    return Message("of GPU {number}", number=number) if (number := plain(value)) else ""


def _touched(value: object) -> Text:
    return Message("1 GPU") if value == 1 else Message("{count} GPUs", count=plain(value))


def _peers(value: object) -> Text:
    return Message("1 peer") if value == 1 else Message("{count} peers", count=plain(value))


def _copied(value: object) -> Text:
    if value == 1:
        return Message("copied to 1 GPU")
    return Message("copied to {count} GPUs", count=plain(value))


def _held(value: object) -> Text:
    names = {
        "context": Message("context, by the driver"),
        "listed": Message("process, listed by NVML"),
    }
    return names.get(str(value).rpartition("_")[2]) or plain(value)


_MODE = Key("subject", Message("mode"), order=("tf-greedy", "tf-growth", "tf-limit", "tf-async"))
_PROGRAM = Key("subject", Message("program"), order=("torch", "torch-expandable"))
_GPU = Key("gpu", Message("GPU"), _gpu)
_PEER = Key("peer", show=_of_gpu)
_VISIBLE = Key("visible", Message("GPUs visible"), order=metrics.VISIBLE)
_CALL = Key("call", Message("program on GPU 1"))
_TOUCHED = Key("touched", Message("tensors on"), _touched)
_MADE = Key("contexts", Message("contexts before"))
_PEERS = Key("peers", show=_peers)
_COPIED = Key("copied_to", show=_copied)
_COPY = Key("copy", order=metrics.COPIES)
_HOLD = Key("metric", Message("held"), _held)
_SPECS = (
    TableSpec(
        name="mode-bytes",
        title=Message("TensorFlow's modes: device memory on each GPU"),
        about=Message(
            "Since before the devices were listed. A tensor is 1 MiB; one GPU is visible by "
            "CUDA_VISIBLE_DEVICES."
        ),
        metrics=[metrics.MODE_BYTES],
        down=(_MODE, _VISIBLE, POINT, METER),
        across=_GPU,
        leading=True,
    ),
    TableSpec(
        name="mode-share",
        title=Message("TensorFlow's modes: share of each GPU taken"),
        about=Message("By NVML, of all the memory of that GPU."),
        metrics=[metrics.MODE_SHARE],
        down=(_MODE, _VISIBLE, POINT),
        across=_GPU,
    ),
    TableSpec(
        name="mode-context",
        title=Message("TensorFlow's modes: which GPUs hold a context"),
        about=Message("1: that GPU does."),
        metrics=[metrics.MODE_CONTEXT, metrics.MODE_LISTED],
        down=(_MODE, _VISIBLE, POINT, _HOLD),
        across=_GPU,
    ),
    TableSpec(
        name="mode-seconds",
        title=Message("TensorFlow's modes: time of each step with one GPU visible and with all"),
        about=Message(
            "In fresh processes: devices listed and created; a tensor on GPU 0; "
            "one on each other GPU."
        ),
        metrics=[
            metrics.DEVICE_SECONDS,
            metrics.FIRST_TENSOR_SECONDS,
            metrics.OTHER_TENSORS_SECONDS,
        ],
        down=(_MODE, _VISIBLE),
        across=METRIC,
    ),
    TableSpec(
        name="touch-bytes",
        title=Message("torch: device memory on each GPU as one after the other is touched"),
        about=Message("A tensor of 1 MiB on each, in their order."),
        metrics=[metrics.TOUCH_BYTES],
        down=(_TOUCHED, METER),
        across=_GPU,
    ),
    TableSpec(
        name="touch-context",
        title=Message("torch: which GPUs hold a context as one after the other is touched"),
        about=Message("1: that GPU does."),
        metrics=[metrics.TOUCH_CONTEXT, metrics.TOUCH_LISTED],
        down=(_TOUCHED, _HOLD),
        across=_GPU,
    ),
    TableSpec(
        name="touch-seconds",
        title=Message("torch: time of the first tensor on each further GPU"),
        metrics=[metrics.TOUCH_SECONDS],
        down=(_PROGRAM,),
        across=_TOUCHED,
    ),
    TableSpec(
        name="stray-bytes",
        title=Message("Stray contexts: what programs that work on GPU 1 take on each GPU"),
        about=Message(
            "What is taken on GPU 0 is stray. Each in a fresh process; the last one sees "
            "GPU 1 only "
            "and makes all of the calls."
        ),
        metrics=[metrics.STRAY_BYTES],
        down=(_CALL, METER),
        across=_GPU,
        leading=True,
    ),
    TableSpec(
        name="stray-context",
        title=Message("Stray contexts: which GPUs hold one"),
        about=Message("1: that GPU does."),
        metrics=[metrics.STRAY_CONTEXT, metrics.STRAY_LISTED],
        down=(_CALL, _HOLD),
        across=_GPU,
    ),
    TableSpec(
        name="peer-bytes",
        title=Message("Peer access: what it adds on each GPU"),
        about=Message(
            "Contexts of all GPUs before: access both ways between GPU 0 and so many others. "
            "Context "
            "of GPU 0 before: its access to them."
        ),
        metrics=[metrics.PEER_BYTES],
        down=(_MADE, _PEERS, METER),
        across=_GPU,
    ),
    TableSpec(
        name="peer-context",
        title=Message("Peer access: which GPUs hold a context"),
        about=Message("1: that GPU does."),
        metrics=[metrics.PEER_CONTEXT, metrics.PEER_LISTED],
        down=(_MADE, _PEERS, _HOLD),
        across=_GPU,
    ),
    TableSpec(
        name="peer-times",
        title=Message("cudaMalloc and cudaFree on GPU 0 by the number of peers"),
        about=Message("With access both ways between GPU 0 and so many others."),
        metrics=[metrics.MALLOC_NS, metrics.FREE_NS],
        down=(METRIC, BYTES),
        across=_PEERS,
        leading=True,
    ),
    TableSpec(
        name="can-access",
        title=Message("Which GPU can reach the memory of which"),
        about=Message("1: it can."),
        metrics=[metrics.CAN_ACCESS],
        down=(_GPU,),
        across=_PEER,
    ),
    TableSpec(
        name="copy-bytes",
        title=Message("torch: what a tensor copied from GPU 0 adds on each GPU"),
        about=Message("Both tensors, 20 MiB each, were there before."),
        metrics=[metrics.COPY_BYTES],
        down=(_PROGRAM, _COPIED, METER),
        across=_GPU,
    ),
    TableSpec(
        name="copy-context",
        title=Message("torch: which GPUs hold a context as a tensor is copied"),
        about=Message("1: that GPU does."),
        metrics=[metrics.COPY_CONTEXT, metrics.COPY_LISTED],
        down=(_PROGRAM, _COPIED, _HOLD),
        across=_GPU,
    ),
    TableSpec(
        name="copy-seconds",
        title=Message("torch: time of the first copy from GPU 0 to another, and of the next"),
        about=Message("20 MiB; the first one enables peer access."),
        metrics=[metrics.COPY_SECONDS],
        down=(_PROGRAM, _PEER),
        across=_COPY,
    ),
    TableSpec(
        name="access-enabled",
        title=Message("torch: which GPU has been given access to which by the copies"),
        about=Message("1: it has."),
        metrics=[metrics.ACCESS_ENABLED],
        down=(_PROGRAM, _GPU),
        across=_PEER,
    ),
    TableSpec(
        name="misses",
        title=Message("torch: time of a request on GPU 0 that finds the cache empty"),
        about=Message("Expandable segments are mapped for each GPU that has access."),
        metrics=[metrics.MISS_NS],
        down=(SUBJECT, BYTES),
        across=_COPIED,
    ),
)


def tables(panel: Panel, judged: Sequence[Judgement]) -> list[Table]:
    """Return the tables of the modes, of torch, of plain peer access, and of copies."""
    return made(panel, metrics.EXPERIMENT, _SPECS)
