"""``allocmark dev derive-profile RESULTS MACHINE --out FILE``: a profile as measured.

RESULTS is a results folder, MACHINE the name of a machine in it, whose documents in the full
profile are read. Every figure of the profile names the document that it comes from, below the
machine's folder.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from allocmark.schema.documents import SUFFIX, Document, read
from allocmark.schema.figure import Figure
from allocmark.system.errors import AllocmarkError
from allocmark.system.units import MIB

_PROFILE = "full"
_HERE = "tools/derive_profile.py"


_CHIPS = {"NVIDIA H200": {"compute_major": 9, "compute_minor": 0, "multiprocessors": 132}}
"""What no result holds: NVIDIA's data sheet."""
_BLAS_WORKSPACES = {"NVIDIA H200": 32 * MIB}
"""What torch's own pool gives cuBLAS on that chip (PyTorch, "cuBLAS workspaces": 8 of 4096 KiB from
compute capability 9.0 on)."""
_LAG_CALLS = 16
_CONTEXT = "context.driver"
_SMALL_HANDLE, _LARGE_HANDLE = 2 * MIB, 20 * MIB
_SMALL_REQUEST = MIB
"""torch's expandable segments map handles of 2 MiB for requests up to 1 MiB, else of 20 MiB."""


class MachineDocuments:
    """The documents of one stack of one machine, each read once."""

    def __init__(self, machine: Path) -> None:
        folders = sorted(machine.glob(f"*/{_PROFILE}"))
        if not folders:
            raise AllocmarkError(
                f"{machine} has no results of the {_PROFILE} profile: "
                f"measure there with `allocmark run --profile {_PROFILE}`"
            )
        # Another framework's stack has allocators of its own, but not the bare context's document.
        folders = [each for each in folders if (each / f"{_CONTEXT}{SUFFIX}").exists()] or folders
        if len(folders) > 1:
            names = ", ".join(folder.parent.name for folder in folders)
            raise AllocmarkError(
                f"{machine} has results of several stacks ({names}): "
                "derive from a folder that holds one of them"
            )
        self._machine, self._folder = machine, folders[0]
        self._read: dict[str, Document] = {}

    def path(self, name: str) -> Path:
        """Return where the document of that name (``context.torch``) lies."""
        return self._folder / f"{name}{SUFFIX}"

    def label(self, name: str) -> str:
        """Return that place below the machine's folder."""
        return self.path(name).relative_to(self._machine).as_posix()

    def document(self, name: str) -> Document:
        """Return a document. Raises `AllocmarkError` where it is missing or emulated."""
        if name not in self._read:
            if not self.path(name).exists():
                raise AllocmarkError(
                    f"{self.path(name)} is missing, and the profile needs it: "
                    f"measure it with `allocmark run --profile {_PROFILE}`"
                )
            document = read(self.path(name))
            if document.emulated:
                raise AllocmarkError(
                    f"{self.path(name)} was measured on the emulated driver: "
                    "derive from results of a real GPU"
                )
            self._read[name] = document
        return self._read[name]

    def figures(self, name: str, metric: str, **axes: Any) -> list[Figure]:
        """Return the measured figures of a document with that metric and those axes."""
        return [
            figure
            for figure in self.document(name).figures
            if figure.metric == metric
            and figure.value is not None
            and all(figure.axes.get(axis) == value for axis, value in axes.items())
        ]

    def bytes(self, name: str, metric: str, stage: str, loading: str, meter: str) -> int:
        """Return one figure of a context document. Raises `AllocmarkError` where it is empty."""
        found = self.figures(name, metric, stage=stage, module_loading=loading, meter=meter)
        if not found:
            raise AllocmarkError(
                f"{self.path(name)} has no {metric} of the stage '{stage}' by {meter} "
                f"({loading}): measure it again"
            )
        return round(found[0].value or 0)

    def times(self, name: str, call: str, path: str) -> dict[int, float]:
        """Return the median nanoseconds of an allocator's call, on the host, by bytes asked for."""
        axes = {"call": call, "path": path, "level": "allocator", "wait": "host"}
        found = self.figures(name, "call_ns", **axes)
        if not found:
            raise AllocmarkError(f"{self.path(name)} has no times of {path}: measure it again")
        return dict(sorted((int(each.axes["bytes"]), each.value or 0.0) for each in found))


def write(results: Path, machine: str, out: Path) -> None:
    """Write the profile of a machine. Raises `AllocmarkError`, and `OSError` for the place."""
    out.write_text(json.dumps(derive(results, machine), indent=2) + "\n")


def derive(results: Path, machine: str) -> dict[str, Any]:
    """Return the profile of a machine as JSON holds it. Raises `AllocmarkError`."""
    source = MachineDocuments(results / machine)
    stack = source.document(_CONTEXT).stack
    gpu = str(stack["gpu"])
    if gpu not in _CHIPS:
        where = f"the table in allocmark/{_HERE}"
        raise AllocmarkError(f"the chip of {gpu} is not known: add it to {where}")
    major, minor = str(stack["cuda"]).split(".")[:2]
    return {
        "comment": f"One {gpu}, driver {stack['driver']}, CUDA {stack['cuda']}, "
        f"torch {stack['torch']}. Written by `allocmark dev derive-profile`.",
        "name": gpu,
        "driver_version": stack["driver"],
        "cuda_version": int(major) * 1000 + int(minor) * 10,
        **_CHIPS[gpu],
        "memory_bytes": stack["usable_bytes"],
        "memory_bytes_source": f"{source.label(_CONTEXT)}: usable_bytes of the stack",
        "nvml_reserved_bytes": stack["total_bytes"] - stack["usable_bytes"],
        "nvml_reserved_bytes_source": f"{source.label(_CONTEXT)}: total_bytes of the stack, "
        "NVML's, less these",
        **_context(source, _BLAS_WORKSPACES[gpu]),
        "lag_calls": _LAG_CALLS,
        "lag_calls_source": "a choice: enough that an event is pending when the next line of a "
        "program asks",
        "call_times_ns": _call_times(source),
    }


def _context(source: MachineDocuments, workspace: int) -> dict[str, Any]:
    def process(stage: str, loading: str = "LAZY", name: str = "context.torch") -> int:
        return source.bytes(name, "stage_bytes", stage, loading, "nvml_process")

    def total(meter: str) -> int:
        return source.bytes(_CONTEXT, "total_bytes", "context", "LAZY", meter)

    product = "first matrix product"
    driver, torch = source.label(_CONTEXT), source.label("context.torch")
    # Before there is a context the process is not listed: only the card's meter sees this.
    init = source.bytes(_CONTEXT, "stage_bytes", "init", "LAZY", "nvml_device")
    unlisted = total("nvml_device") - total("nvml_process") - init
    eager = process("context", "EAGER") - process("context")
    up_to, blas = "total up to context, less init", f"{torch}: nvml_process, {product}"
    less_workspace = f"less the workspace of {workspace} in torch's pool"
    measured = {
        "driver_init": (init, f"{driver}: nvml_device, init"),
        "context": (process("context", name=_CONTEXT), f"{driver}: nvml_process, context"),
        "context_unlisted": (unlisted, f"{driver}: nvml_device less nvml_process, {up_to}"),
        "context_eager": (eager, f"{torch}: nvml_process, context, EAGER less LAZY"),
        "first_kernel": (process("first kernel"), f"{torch}: nvml_process, first kernel, LAZY"),
        "first_blas": (process(product) - workspace, f"{blas}, LAZY, {less_workspace}"),
        "first_blas_eager": (
            process(product, "EAGER") - workspace,
            f"{blas}, EAGER, less the same",
        ),
    }
    lines: dict[str, Any] = {}
    for name, (count, origin) in measured.items():
        lines |= {f"{name}_bytes": count, f"{name}_bytes_source": origin}
    return lines


def _call_times(source: MachineDocuments) -> dict[str, Any]:
    """Return the table of each call whose time can be told: bytes to nanoseconds, and its source.

    Of a pool only the call that makes it grow is timed: one that does not costs what it costs here.
    """
    plain, pool = "latency.cuda-malloc", "latency.cuda-malloc-async-0"
    mapped = "latency.torch-expandable"
    handle = f"a handle of torch's expandable segments, from {source.label(mapped)}: "
    create = "a missed alloc over its handles (create, map and set access together)"
    release = "a give-back over its handles (unmap and release together)"
    grows = f"{source.label(pool)}: alloc that makes the pool grow, median by bytes"
    tables = {
        "cudaMalloc": ((plain, "alloc", "miss"), f"{source.label(plain)}: alloc, median by bytes"),
        "cudaFree": ((plain, "free", "miss"), f"{source.label(plain)}: free, median by bytes"),
        "cudaMallocAsync": ((pool, "alloc", "miss"), grows),
        "cuMemCreate": ((mapped, "alloc", "miss"), f"{handle}{create}, median over the sizes"),
        "cuMemRelease": (
            (mapped, "free", "give-back"),
            f"{handle}{release}, median over the sizes",
        ),
    }
    found = {}
    for name, (cell, origin) in tables.items():
        times = source.times(*cell)
        times = _by_handle(times) if cell[0] == mapped else times
        by_bytes = {str(size): round(ns) for size, ns in times.items()}
        found[name] = {"source": origin, "ns_by_bytes": by_bytes}
    return found


def _by_handle(times: Mapping[int, float]) -> dict[int, float]:
    """Return the nanoseconds of one handle of each size, from those of whole requests."""
    found: dict[int, list[float]] = {_SMALL_HANDLE: [], _LARGE_HANDLE: []}
    for size, ns in times.items():
        handle = _SMALL_HANDLE if size <= _SMALL_REQUEST else _LARGE_HANDLE
        found[handle].append(ns / -(-size // handle))
    return {handle: median(each) for handle, each in found.items()}
