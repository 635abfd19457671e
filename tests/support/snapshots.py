"""Snapshots by hand, in the formats of several torch releases, written as torch writes them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

MIB = 1 << 20
SEGMENT = 20 * MIB
BASE = 0x7F0000000000

Entry = dict[str, Any]


def entry(action: str, addr: int, size: int, stream: int = 0, **more: Any) -> Entry:
    """Return a trace entry of the present format."""
    where = {"device_free": addr} if action == "oom" else {"addr": addr}
    return {"action": action, **where, "size": size, "stream": stream, "time_us": 7, **more}


def frame(line: int, name: str = "train", filename: str = "model.py") -> dict[str, Any]:
    return {"name": name, "filename": filename, "line": line}


def block(address: int, size: int, state: str = "active_allocated", **more: Any) -> Entry:
    requested = more.pop("requested", size if state != "inactive" else 0)
    return {"address": address, "size": size, "requested_size": requested, "state": state, **more}


def segment(address: int, size: int, blocks: Sequence[Entry], **more: Any) -> Entry:
    return {
        "device": 0,
        "address": address,
        "total_size": size,
        "stream": 0,
        "segment_type": "large",
        "segment_pool_id": (0, 0),
        "is_expandable": False,
        "blocks": list(blocks),
        **more,
    }


def snapshot(
    entries: Sequence[Entry] = (), segments: Sequence[Entry] = (), **more: Any
) -> dict[str, Any]:
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "", "expandable_segments": False, "max_split_size": -1}
    return {
        "segments": list(segments),
        "device_traces": [list(entries)],
        "allocator_settings": settings,
        **more,
    }


def write(path: Path, content: Mapping[str, Any] | Sequence[Any], protocol: int = 4) -> Path:
    path.write_bytes(pickle.dumps(content, protocol))
    return path
