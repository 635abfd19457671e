"""Any recording by its contents, not by its name."""

from __future__ import annotations

from pathlib import Path

from allocmark.allocators.torch_caching import NATIVE
from allocmark.recording.importers import restricted_pickle, rmm_csv, torch_snapshot
from allocmark.recording.importers.recording import OF_ONE_DEVICE, Recording
from allocmark.system.errors import AllocmarkError
from allocmark.workloads import trace_file

_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 4096


def read(path: Path, device: int | None = None) -> Recording:
    """Return the recording in a file: a torch snapshot, an RMM log or a trace of the suite.

    Raises `AllocmarkError` with one sentence for a file that cannot be used.
    """
    try:
        if not path.is_file():
            what = "is a folder or a pipe" if path.exists() else "does not exist"
            raise AllocmarkError(f"{path} {what}: name the file of a recording")
        with path.open("rb") as stream:
            head = stream.read(_HEAD_BYTES)
    except OSError as error:
        raise AllocmarkError(f"{path} cannot be read ({error.strerror})") from error
    if not head:
        raise AllocmarkError(f"{path.name} is empty: was the recording cut off?")
    if rmm_csv.looks_like(head):
        return rmm_csv.read(path, device)
    if rmm_csv.looks_like_debug_log(head):
        raise AllocmarkError(
            f"{path.name} is RMM's debug log, which does not hold all allocations: log them with "
            "rmm.enable_logging(), or with a logging_resource_adaptor around the resource"
        )
    if head.startswith(_GZIP):
        return _trace(path, device)
    if restricted_pickle.looks_like(head):
        return torch_snapshot.read(path, device)
    raise AllocmarkError(
        f"{path.name} is no pickle of a snapshot, no log of RMM and no trace of the suite: "
        "name a recording (allocmark record makes one)"
    )


def _trace(path: Path, device: int | None) -> Recording:
    trace = trace_file.read(path)
    if device not in (None, 0):
        raise AllocmarkError(f"{path.name} is a trace, which holds one device: leave out --device")
    if not len(trace):
        raise AllocmarkError(f"{path.name} holds no event: record the program again")
    origin = trace.origin
    known = (
        "peak_reserved_bytes",
        "reserved_bytes",
        "segments",
        "peak_segments",
        "driver_allocs",
        "ooms",
    )
    counted = {name: int(origin[name]) for name in known if isinstance(origin.get(name), int)}
    if isinstance(origin.get("num_alloc_retries"), int):
        counted["retries"] = int(origin["num_alloc_retries"])
    recorded = str(origin.get("setting", ""))
    setting = "" if recorded == NATIVE else recorded if ":" in recorded else None
    environment = {name: origin[name] for name in ("gpu", "torch", "driver") if name in origin}
    if "memory_bytes" in origin:
        environment["total_bytes"] = origin["memory_bytes"]
    environment |= {name: origin[name] for name in OF_ONE_DEVICE if name in origin}
    source = f"trace {path.name}"
    return Recording(source, 0, trace, setting=setting, counted=counted, environment=environment)
