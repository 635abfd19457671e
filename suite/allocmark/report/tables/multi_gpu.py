"""Several GPUs: what programs take on each, stray contexts, peer access, copies between GPUs."""

from __future__ import annotations

from allocmark.allocators.tensorflow_gpu import MODES
from allocmark.report.axes import METER, POINT
from allocmark.report.table_spec import TableSpec
from allocmark.schema.metrics import multi_gpu as metrics
from allocmark.store.grid import BYTES, METRIC, SUBJECT, Key, plain
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


_MODE = Key("subject", Message("mode"), order=tuple(MODES))
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
TABLES = (
    TableSpec(
        [metrics.MODE_BYTES],
        Message("TensorFlow's modes: device memory on each GPU"),
        (_MODE, _VISIBLE, POINT, METER),
        _GPU,
        about=Message(
            "Since before the devices were listed. A tensor is 1 MiB; one GPU is visible by "
            "CUDA_VISIBLE_DEVICES."
        ),
        leading=True,
    ),
    TableSpec(
        [metrics.MODE_SHARE],
        Message("TensorFlow's modes: share of each GPU taken"),
        (_MODE, _VISIBLE, POINT),
        _GPU,
        about=Message("By NVML, of all the memory of that GPU."),
    ),
    TableSpec(
        [metrics.MODE_CONTEXT, metrics.MODE_LISTED],
        Message("TensorFlow's modes: which GPUs hold a context"),
        (_MODE, _VISIBLE, POINT, _HOLD),
        _GPU,
        about=Message("1: that GPU does."),
    ),
    TableSpec(
        [metrics.DEVICE_SECONDS, metrics.FIRST_TENSOR_SECONDS, metrics.OTHER_TENSORS_SECONDS],
        Message("TensorFlow's modes: time of each step with one GPU visible and with all"),
        (_MODE, _VISIBLE),
        METRIC,
        about=Message(
            "In fresh processes: devices listed and created; a tensor on GPU 0; "
            "one on each other GPU."
        ),
        name="mode-seconds",
    ),
    TableSpec(
        [metrics.TOUCH_BYTES],
        Message("torch: device memory on each GPU as one after the other is touched"),
        (_TOUCHED, METER),
        _GPU,
        about=Message("A tensor of 1 MiB on each, in their order."),
    ),
    TableSpec(
        [metrics.TOUCH_CONTEXT, metrics.TOUCH_LISTED],
        Message("torch: which GPUs hold a context as one after the other is touched"),
        (_TOUCHED, _HOLD),
        _GPU,
        about=Message("1: that GPU does."),
    ),
    TableSpec(
        [metrics.TOUCH_SECONDS],
        Message("torch: time of the first tensor on each further GPU"),
        (_PROGRAM,),
        _TOUCHED,
    ),
    TableSpec(
        [metrics.STRAY_BYTES],
        Message("Stray contexts: what programs that work on GPU 1 take on each GPU"),
        (_CALL, METER),
        _GPU,
        about=Message(
            "What is taken on GPU 0 is stray. Each in a fresh process; the last one sees "
            "GPU 1 only "
            "and makes all of the calls."
        ),
        leading=True,
    ),
    TableSpec(
        [metrics.STRAY_CONTEXT, metrics.STRAY_LISTED],
        Message("Stray contexts: which GPUs hold one"),
        (_CALL, _HOLD),
        _GPU,
        about=Message("1: that GPU does."),
    ),
    TableSpec(
        [metrics.PEER_BYTES],
        Message("Peer access: what it adds on each GPU"),
        (_MADE, _PEERS, METER),
        _GPU,
        about=Message(
            "Contexts of all GPUs before: access both ways between GPU 0 and so many others. "
            "Context "
            "of GPU 0 before: its access to them."
        ),
    ),
    TableSpec(
        [metrics.PEER_CONTEXT, metrics.PEER_LISTED],
        Message("Peer access: which GPUs hold a context"),
        (_MADE, _PEERS, _HOLD),
        _GPU,
        about=Message("1: that GPU does."),
    ),
    TableSpec(
        [metrics.MALLOC_NS, metrics.FREE_NS],
        Message("cudaMalloc and cudaFree on GPU 0 by the number of peers"),
        (METRIC, BYTES),
        _PEERS,
        about=Message("With access both ways between GPU 0 and so many others."),
        name="peer-times",
        leading=True,
    ),
    TableSpec(
        [metrics.CAN_ACCESS],
        Message("Which GPU can reach the memory of which"),
        (_GPU,),
        _PEER,
        about=Message("1: it can."),
    ),
    TableSpec(
        [metrics.COPY_BYTES],
        Message("torch: what a tensor copied from GPU 0 adds on each GPU"),
        (_PROGRAM, _COPIED, METER),
        _GPU,
        about=Message("Both tensors, 20 MiB each, were there before."),
    ),
    TableSpec(
        [metrics.COPY_CONTEXT, metrics.COPY_LISTED],
        Message("torch: which GPUs hold a context as a tensor is copied"),
        (_PROGRAM, _COPIED, _HOLD),
        _GPU,
        about=Message("1: that GPU does."),
    ),
    TableSpec(
        [metrics.COPY_SECONDS],
        Message("torch: time of the first copy from GPU 0 to another, and of the next"),
        (_PROGRAM, _PEER),
        _COPY,
        about=Message("20 MiB; the first one enables peer access."),
    ),
    TableSpec(
        [metrics.ACCESS_ENABLED],
        Message("torch: which GPU has been given access to which by the copies"),
        (_PROGRAM, _GPU),
        _PEER,
        about=Message("1: it has."),
    ),
    TableSpec(
        [metrics.MISS_NS],
        Message("torch: time of a request on GPU 0 that finds the cache empty"),
        (SUBJECT, BYTES),
        _COPIED,
        about=Message("Expandable segments are mapped for each GPU that has access."),
        name="misses",
    ),
)
