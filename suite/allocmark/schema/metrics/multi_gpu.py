"""What a program takes on each of several GPUs, stray contexts, and what peer access costs."""

from __future__ import annotations

from functools import partial

from allocmark.schema.metric import Metric, metric

EXPERIMENT = "several_gpus"
_exact = partial(metric, EXPERIMENT, "exact")
_sampled = partial(metric, EXPERIMENT, "sampled")
_time = partial(metric, EXPERIMENT, "time")

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


def _bytes(part: str, help: str, *axes: str) -> Metric:
    return _sampled(f"{part}_bytes", help, *axes, "gpu", "meter")


def _context(part: str, *axes: str) -> Metric:
    help = "1 where the process holds the primary context of that GPU"
    return _exact(f"{part}_context", help, *axes, "gpu")


def _listed(part: str, *axes: str) -> Metric:
    return _exact(f"{part}_listed", "1 where NVML lists the process on that GPU", *axes, "gpu")


_MODE = ("visible", "point")
MODE_BYTES = _bytes("mode", "TensorFlow's modes: taken on each GPU since the start", *_MODE)
MODE_CONTEXT, MODE_LISTED = _context("mode", *_MODE), _listed("mode", *_MODE)
MODE_SHARE = _sampled("mode_share", "bytes by nvml_device over that GPU's memory", *_MODE, "gpu")
DEVICE_SECONDS = _time(
    "device_seconds", "devices listed and created, in a fresh process", "visible"
)
FIRST_TENSOR_SECONDS = _time("first_tensor_seconds", "then a tensor on GPU 0", "visible")
OTHER_TENSORS_SECONDS = _time("other_tensors_seconds", "then one on each other GPU", "visible")
TOUCH_BYTES = _bytes("touch", "torch, when so many GPUs have got a tensor", "touched")
TOUCH_CONTEXT, TOUCH_LISTED = _context("touch", "touched"), _listed("touch", "touched")
TOUCH_SECONDS = _time("touch_seconds", "the last of these tensors", "touched")
STRAY_BYTES = _bytes("stray", "torch, programs that work on GPU 1 only: stray on GPU 0", "call")
STRAY_CONTEXT, STRAY_LISTED = _context("stray", "call"), _listed("stray", "call")
_PEER = ("contexts", "peers")
PEER_BYTES = _bytes("peer", "cudart, added by cudaDeviceEnablePeerAccess with so many", *_PEER)
PEER_CONTEXT, PEER_LISTED = _context("peer", *_PEER), _listed("peer", *_PEER)
CAN_ACCESS = _exact("can_access", "cudaDeviceCanAccessPeer", "gpu", "peer", better="neither")
MALLOC_NS = _time(
    "malloc_ns", "cudaMalloc on GPU 0, access enabled with so many others", "peers", "bytes"
)
FREE_NS = _time("free_ns", "cudaFree likewise", "peers", "bytes")
COPY_BYTES = _bytes("copy", "torch, a tensor copied from GPU 0 to so many others", "copied_to")
COPY_CONTEXT, COPY_LISTED = _context("copy", "copied_to"), _listed("copy", "copied_to")
COPY_SECONDS = _time(
    "copy_seconds", "20 MiB from GPU 0 to it: the first enables access", "peer", "copy"
)
MISS_NS = _time(
    "miss_ns", "torch.empty on GPU 0, cache empty, after so many copies", "copied_to", "bytes"
)
ACCESS_ENABLED = _exact(
    "access_enabled",
    "1 where copies have given that GPU access to its peer",
    "gpu",
    "peer",
    better="neither",
)
