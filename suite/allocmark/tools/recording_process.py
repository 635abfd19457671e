"""The process in which one program runs for the record: ``python -m ...recording_process JSON``.

A program is recorded under torch's native setting, its history and its counters; under any other
setting only the counters are kept: they are the truth that replays of the trace are held against.
"""

from __future__ import annotations

import gc
import importlib
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from allocmark.allocators.torch_caching import NATIVE
from allocmark.schema.documents import write_whole
from allocmark.system.errors import AllocmarkError
from allocmark.workloads import placement_file, trace_file
from allocmark.workloads.history import convert
from allocmark.workloads.programs import program

_MOST_ENTRIES = 4_000_000
"""Entries that torch keeps; it forgets the oldest beyond, so a full history is refused."""

_COUNTERS = {
    "peak_requested_bytes": "requested_bytes.all.peak",
    "peak_allocated_bytes": "allocated_bytes.all.peak",
    "peak_reserved_bytes": "reserved_bytes.all.peak",
    "reserved_bytes": "reserved_bytes.all.current",
    "peak_segments": "segment.all.peak",
    "segments": "segment.all.current",
    "num_alloc_retries": "num_alloc_retries",
    "num_ooms": "num_ooms",
    "driver_allocs": "num_device_alloc",
    "driver_frees": "num_device_free",
}
"""What is kept of ``torch.cuda.memory_stats``, under the suite's names."""

_WITHOUT_SEGMENTS = ("peak_allocated_bytes", "peak_reserved_bytes", "reserved_bytes")
"""The counters that torch's front over the driver's pool keeps; it leaves the others at zero."""


def main(text: str) -> int:
    """Run one program as the JSON text asks: name, setting, steps, device, out."""
    request = json.loads(text)
    try:
        record(**request | {"out": Path(request["out"])})
    except AllocmarkError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    return 0


def record(name: str, setting: str, steps: int | None, device: int, out: Path) -> None:
    """Run a program and write what is kept of it into the folder `out`.

    Under `NATIVE`: the trace and the placement, with the counters in their headers. Under any
    setting: ``<program>.<setting>.json`` with the counters. Raises `AllocmarkError` where there
    is no GPU, or where the history does not hold the whole run.
    """
    torch: Any = importlib.import_module("torch")
    if not torch.cuda.is_available():
        raise AllocmarkError("torch finds no usable GPU: record where there is one")
    chosen = program(name)
    steps = steps or chosen.STEPS
    torch.cuda.set_device(device)
    torch.cuda.init()
    keeps_history = setting == NATIVE
    before: list[dict[str, Any]] = []
    if keeps_history:
        before = [s for s in torch.cuda.memory_snapshot() if s["device"] == device]
        torch.cuda.memory._record_memory_history(context=None, max_entries=_MOST_ENTRIES)
    # A collection at a moment of its own choosing would free tensors there; one at the end frees
    # the model and its optimizer, which point at each other.
    gc.disable()
    begin = time.monotonic()
    chosen.run(steps, device)
    gc.collect()
    seconds = time.monotonic() - begin
    origin = _origin(torch, name, setting, steps, device)
    origin["seconds"] = round(seconds, 3)
    if keeps_history:
        entries = torch.cuda.memory._snapshot()["device_traces"][device]
        if len(entries) >= _MOST_ENTRIES:
            raise AllocmarkError(f"{name} has too long a history to record: take fewer steps")
        trace, placement = convert(name, entries, before, origin)
        counted = origin["peak_requested_bytes"]
        if trace.peak_requested_bytes != counted:  # The history lacks something.
            raise AllocmarkError(
                f"the history of {name} tells a peak of {trace.peak_requested_bytes} requested "
                f"bytes, torch counted {counted}: it is not whole"
            )
        trace_file.write(out / f"{name}{trace_file.SUFFIX}", trace)
        placement_file.write(out / f"{name}{placement_file.SUFFIX}", placement)
    text = json.dumps(origin, indent=1, sort_keys=True) + "\n"
    write_whole(out / f"{name}.{setting}.json", text.encode())


def _origin(
    torch: Any, name: str, setting: str, steps: int, device: int
) -> dict[str, str | int | float]:
    """Return where and how a run was made, and torch's counters at its end."""
    stats = torch.cuda.memory_stats(device)
    driver_pool = torch.cuda.get_allocator_backend() != "native"
    kept = _WITHOUT_SEGMENTS if driver_pool else tuple(_COUNTERS)
    return {
        "kind": "recorded",
        "program": name,
        "setting": setting,
        "steps": steps,
        "recorded": datetime.now(UTC).date().isoformat(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda or "",
        "cudnn": _cudnn_version(torch),
        "python": sys.version.split()[0],
        "gpu": torch.cuda.get_device_name(device),
        "memory_bytes": torch.cuda.get_device_properties(device).total_memory,
        "driver": _driver_version(),
        **{ours: stats[_COUNTERS[ours]] for ours in kept if _COUNTERS[ours] in stats},
    }


def _cudnn_version(torch: Any) -> int:
    """Return cuDNN's version as torch counts it, 0 where there is none that torch can use."""
    try:
        return int(torch.backends.cudnn.version() or 0)
    except RuntimeError:  # Its version does not fit, or it does not start.
        return 0


def _driver_version() -> str:
    """Return the driver's version as NVML tells it, empty where it cannot be asked."""
    try:
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        return str(pynvml.nvmlSystemGetDriverVersion())
    except Exception:  # No module, no library or no permission: a recording does not need it.
        return ""


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
