"""What a program takes on each of several GPUs, stray contexts, and what peer access costs."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric

EXPERIMENT = "several_gpus"
_metric = partial(Metric, EXPERIMENT)

VISIBLE = ONE, ALL = ("one", "all")
"""Values of ``visible``: what CUDA_VISIBLE_DEVICES leaves."""
POINTS = CREATED, FIRST_TENSOR, EACH_TENSOR = (
    "device created",
    "first tensor on GPU 0",
    "first tensor on every GPU",
)
"""Values of ``point``, in the order of the program."""
CONTEXTS = OF_ALL, OF_FIRST = ("of all GPUs", "of GPU 0")
"""Values of ``contexts``, those made before: then access goes both ways, or from GPU 0 only."""
COPIES = FIRST, NEXT = ("first", "next")
"""Values of ``copy``."""
ONE_GPU_VISIBLE = "CUDA_VISIBLE_DEVICES=1"
"""Value of ``call``: the program in a process that sees the second GPU only."""


def _bytes(part: str, axes: tuple[str, ...], help: str) -> Metric:
    return _metric(f"{part}_bytes", "bytes", "sampled", (*axes, "gpu", "meter"), help)


def _context(part: str, axes: tuple[str, ...]) -> Metric:
    help = "1 where the process holds the primary context of that GPU"
    return _metric(f"{part}_context", "count", "exact", (*axes, "gpu"), help)


def _listed(part: str, axes: tuple[str, ...]) -> Metric:
    help = "1 where NVML lists the process on that GPU"
    return _metric(f"{part}_listed", "count", "exact", (*axes, "gpu"), help)


_MODE = ("visible", "point")
MODE_BYTES = _bytes("mode", _MODE, "TensorFlow's modes: taken on each GPU since the start")
MODE_CONTEXT, MODE_LISTED = _context("mode", _MODE), _listed("mode", _MODE)
MODE_SHARE = _metric(
    "mode_share", "share", "sampled", (*_MODE, "gpu"), "bytes by nvml_device over that GPU's memory"
)
DEVICE_SECONDS = _metric(
    "device_seconds", "s", "time", ("visible",), "devices listed and created, in a fresh process"
)
FIRST_TENSOR_SECONDS = _metric(
    "first_tensor_seconds", "s", "time", ("visible",), "then a tensor on GPU 0"
)
OTHER_TENSORS_SECONDS = _metric(
    "other_tensors_seconds", "s", "time", ("visible",), "then one on each other GPU"
)
TOUCH_BYTES = _bytes("touch", ("touched",), "torch, when so many GPUs have got a tensor")
TOUCH_CONTEXT, TOUCH_LISTED = _context("touch", ("touched",)), _listed("touch", ("touched",))
TOUCH_SECONDS = _metric("touch_seconds", "s", "time", ("touched",), "the last of these tensors")
STRAY_BYTES = _bytes("stray", ("call",), "torch, programs that work on GPU 1 only: stray on GPU 0")
STRAY_CONTEXT, STRAY_LISTED = _context("stray", ("call",)), _listed("stray", ("call",))
_PEER = ("contexts", "peers")
PEER_BYTES = _bytes("peer", _PEER, "cudart, added by cudaDeviceEnablePeerAccess with so many")
PEER_CONTEXT, PEER_LISTED = _context("peer", _PEER), _listed("peer", _PEER)
CAN_ACCESS = _metric("can_access", "count", "exact", ("gpu", "peer"), "cudaDeviceCanAccessPeer")
MALLOC_NS = _metric(
    "malloc_ns",
    "ns",
    "time",
    ("peers", "bytes"),
    "cudaMalloc on GPU 0, access enabled both ways with so many others",
)
FREE_NS = _metric("free_ns", "ns", "time", ("peers", "bytes"), "cudaFree likewise")
COPY_BYTES = _bytes("copy", ("copied_to",), "torch, a tensor copied from GPU 0 to so many others")
COPY_CONTEXT, COPY_LISTED = _context("copy", ("copied_to",)), _listed("copy", ("copied_to",))
COPY_SECONDS = _metric(
    "copy_seconds",
    "s",
    "time",
    ("peer", "copy"),
    "20 MiB from GPU 0 to that GPU: the first time, which enables access, and the next",
)
MISS_NS = _metric(
    "miss_ns",
    "ns",
    "time",
    ("copied_to", "bytes"),
    "torch.empty on GPU 0 with an empty cache, after copies to so many others",
)
ACCESS_ENABLED = _metric(
    "access_enabled",
    "count",
    "exact",
    ("gpu", "peer"),
    "1 where torch's copies have given that GPU access to its peer",
)
