"""Several GPUs: what programs take on each, stray contexts, peer access, copies between GPUs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from allocmark.store.grid import BYTES, METRIC, SUBJECT, Key, plain
from allocmark.store.panel import Panel
from allocmark.store.section import make
from allocmark.store.table import Table

TITLE = "Several GPUs"

_PROBE = "several_gpus"
_METERS = {
    "nvml_process": "NVML process",
    "nvml_device": "NVML device",
    "mem_get_info": "cudaMemGetInfo",
}
_HOLDS = {"context": "context, by the driver", "listed": "process, listed by NVML"}


def _numbered(text: str) -> Callable[[object], str]:
    return lambda value: text.format(plain(value)) if plain(value) else ""


def _counted(text: str) -> Callable[[object], str]:
    def show(value: object) -> str:
        return _numbered(text)(value) + ("" if value == 1 else "s")

    return show


def _held(value: object) -> str:
    return _HOLDS.get(str(value).rpartition("_")[2], str(value))


_METER = Key(
    "axis_meter", "meter", lambda value: _METERS.get(plain(value), plain(value)), tuple(_METERS)
)
_MODE = Key("subject", "mode", order=("tf-greedy", "tf-growth", "tf-limit", "tf-async"))
_PROGRAM = Key("subject", "program", order=("torch", "torch-expandable"))
_GPU = Key("gpu", "GPU", _numbered("GPU {}"))
_PEER = Key("peer", "peer", _numbered("of GPU {}"))
_VISIBLE = Key("visible", "GPUs visible", order=("one", "all"))
_POINT = Key("point", "point")
_CALL = Key("call", "program on GPU 1")
_TOUCHED = Key("touched", "tensors on", _counted("{} GPU"))
_MADE = Key("contexts", "contexts before")
_PEERS = Key("peers", "peers", _counted("{} peer"))
_COPIED = Key("copied_to", "copied to", _counted("copied to {} GPU"))
_COPY = Key("copy", "copy", order=("first", "next"))
_HOLD = Key("metric", "held", _held)


@dataclass(frozen=True, slots=True)
class _Asked:
    """One table: which metrics, laid out how."""

    name: str
    metrics: tuple[str, ...]
    title: str
    about: str
    down: tuple[Key, ...]
    across: Key


_TABLES = (
    _Asked(
        "mode-bytes",
        ("mode_bytes",),
        "TensorFlow's modes: device memory on each GPU",
        "Since before the devices were listed. A tensor is 1 MiB; one GPU is visible by "
        "CUDA_VISIBLE_DEVICES.",
        (_MODE, _VISIBLE, _POINT, _METER),
        _GPU,
    ),
    _Asked(
        "mode-share",
        ("mode_share",),
        "TensorFlow's modes: share of each GPU taken",
        "By NVML, of all the memory of that GPU.",
        (_MODE, _VISIBLE, _POINT),
        _GPU,
    ),
    _Asked(
        "mode-context",
        ("mode_context", "mode_listed"),
        "TensorFlow's modes: which GPUs hold a context",
        "1: that GPU does.",
        (_MODE, _VISIBLE, _POINT, _HOLD),
        _GPU,
    ),
    _Asked(
        "mode-seconds",
        ("device_seconds", "first_tensor_seconds", "other_tensors_seconds"),
        "TensorFlow's modes: time of each step with one GPU visible and with all",
        "In fresh processes: devices listed and created; a tensor on GPU 0; one on each other GPU.",
        (_MODE, _VISIBLE),
        METRIC,
    ),
    _Asked(
        "touch-bytes",
        ("touch_bytes",),
        "torch: device memory on each GPU as one after the other is touched",
        "A tensor of 1 MiB on each, in their order.",
        (_TOUCHED, _METER),
        _GPU,
    ),
    _Asked(
        "touch-context",
        ("touch_context", "touch_listed"),
        "torch: which GPUs hold a context as one after the other is touched",
        "1: that GPU does.",
        (_TOUCHED, _HOLD),
        _GPU,
    ),
    _Asked(
        "touch-seconds",
        ("touch_seconds",),
        "torch: time of the first tensor on each further GPU",
        "",
        (_PROGRAM,),
        _TOUCHED,
    ),
    _Asked(
        "stray-bytes",
        ("stray_bytes",),
        "Stray contexts: what programs that work on GPU 1 take on each GPU",
        "What is taken on GPU 0 is stray. Each in a fresh process; the last one sees GPU 1 only "
        "and makes all of the calls.",
        (_CALL, _METER),
        _GPU,
    ),
    _Asked(
        "stray-context",
        ("stray_context", "stray_listed"),
        "Stray contexts: which GPUs hold one",
        "1: that GPU does.",
        (_CALL, _HOLD),
        _GPU,
    ),
    _Asked(
        "peer-bytes",
        ("peer_bytes",),
        "Peer access: what it adds on each GPU",
        "Contexts of all GPUs before: access both ways between GPU 0 and so many others. Context "
        "of GPU 0 before: its access to them.",
        (_MADE, _PEERS, _METER),
        _GPU,
    ),
    _Asked(
        "peer-context",
        ("peer_context", "peer_listed"),
        "Peer access: which GPUs hold a context",
        "1: that GPU does.",
        (_MADE, _PEERS, _HOLD),
        _GPU,
    ),
    _Asked(
        "peer-times",
        ("malloc_ns", "free_ns"),
        "cudaMalloc and cudaFree on GPU 0 by the number of peers",
        "With access both ways between GPU 0 and so many others.",
        (METRIC, BYTES),
        _PEERS,
    ),
    _Asked(
        "can-access",
        ("can_access",),
        "Which GPU can reach the memory of which",
        "1: it can.",
        (_GPU,),
        _PEER,
    ),
    _Asked(
        "copy-bytes",
        ("copy_bytes",),
        "torch: what a tensor copied from GPU 0 adds on each GPU",
        "Both tensors, 20 MiB each, were there before.",
        (_PROGRAM, _COPIED, _METER),
        _GPU,
    ),
    _Asked(
        "copy-context",
        ("copy_context", "copy_listed"),
        "torch: which GPUs hold a context as a tensor is copied",
        "1: that GPU does.",
        (_PROGRAM, _COPIED, _HOLD),
        _GPU,
    ),
    _Asked(
        "copy-seconds",
        ("copy_seconds",),
        "torch: time of the first copy from GPU 0 to another, and of the next",
        "20 MiB; the first one enables peer access.",
        (_PROGRAM, _PEER),
        _COPY,
    ),
    _Asked(
        "access-enabled",
        ("access_enabled",),
        "torch: which GPU has been given access to which by the copies",
        "1: it has.",
        (_PROGRAM, _GPU),
        _PEER,
    ),
    _Asked(
        "misses",
        ("miss_ns",),
        "torch: time of a request on GPU 0 that finds the cache empty",
        "Expandable segments are mapped for each GPU that has access.",
        (SUBJECT, BYTES),
        _COPIED,
    ),
)


def tables(panel: Panel) -> list[Table]:
    """Return the tables of the modes, of torch, of plain peer access, and of copies."""
    made = (
        make(
            panel,
            _PROBE,
            {"metric": asked.metrics},
            down=asked.down,
            across=asked.across,
            name=asked.name,
            title=asked.title,
            about=asked.about,
        )
        for asked in _TABLES
    )
    return [table for table in made if table is not None]
