"""Recorded traces as small files: ``<name>.trace.gz``, described in ``recorded/README.md``.

On top of the container (`columns`), a trace is stored by what repeats in it: an event's block as
its age (how many blocks were allocated since), a size as its place in the list of different sizes.
A trace with private pools names their kinds in the header and has version 2; all others stay 1.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from allocmark.allocators.base import PoolKind
from allocmark.schema.documents import write_whole
from allocmark.system.errors import AllocmarkError
from allocmark.workloads import columns
from allocmark.workloads.columns import Columns
from allocmark.workloads.event_trace import NAMES_POOL, WITHOUT_BLOCK, Op, Trace

SUFFIX = ".trace.gz"
FORMAT = "allocmark-trace"
VERSION = 2
_WITHOUT_POOLS = 1
_BYTES_OF_OP_AND_STREAM = 2


def dumps(trace: Trace) -> bytes:
    """Return the bytes of a trace's file; the same trace gives the same bytes."""
    allocs = trace.op == Op.ALLOC
    # How many blocks there are after each event: the newest block has age 1.
    blocks_so_far = np.cumsum(allocs)
    if not np.array_equal(trace.block[allocs], np.arange(int(allocs.sum()))):
        raise AllocmarkError(f"trace {trace.name} does not number its blocks as they are allocated")
    with_block = ~np.isin(trace.op, WITHOUT_BLOCK) & ~allocs
    sizes, size_index = np.unique(trace.size[allocs], return_inverse=True)
    stored = {
        "op": trace.op.astype(np.uint8),
        "stream": trace.stream.astype(np.uint8),
        "age": columns.narrow(blocks_so_far[with_block] - trace.block[with_block]),
        "size_index": columns.narrow(size_index),
        "sizes": sizes.astype(np.int64),
    }
    header: dict[str, object] = {"name": trace.name, "origin": dict(trace.origin)}
    if not trace.pools:
        return columns.dumps(FORMAT, _WITHOUT_POOLS, Columns(header, stored))
    header["pools"] = [str(kind) for kind in trace.pools]
    stored["pool"] = columns.narrow(trace.size[np.isin(trace.op, NAMES_POOL)])
    return columns.dumps(FORMAT, VERSION, Columns(header, stored))


def loads(content: bytes, what: str) -> Trace:
    """Return the trace in a file's bytes, named `what`.

    Raises `AllocmarkError` with one sentence for a file that is damaged, foreign or newer.
    """
    stored = columns.loads(content, FORMAT, VERSION, what)
    try:
        return _rebuild(stored, what)
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as error:
        raise AllocmarkError(f"{what} is damaged ({error}): fetch or record it again") from error


def write(path: Path, trace: Trace) -> None:
    """Write a trace's file, whole or not at all."""
    write_whole(path, dumps(trace))


def read(path: Path) -> Trace:
    """Read a trace's file. Raises `AllocmarkError` where it cannot be read or used."""
    return loads(columns.read_bytes(path), path.name.removesuffix(SUFFIX))


def _rebuild(stored: Columns, what: str) -> Trace:
    if min(int(column.min(initial=0)) for column in stored.columns.values()) < 0:
        raise ValueError("a number is below zero")
    op, stream = stored.columns["op"], stored.columns["stream"]
    if int(op.max(initial=0)) >= len(Op) or op.itemsize + stream.itemsize > _BYTES_OF_OP_AND_STREAM:
        raise ValueError("it names an event or a stream that cannot be")
    allocs = op == Op.ALLOC
    with_block = ~np.isin(op, WITHOUT_BLOCK) & ~allocs
    pool_events = np.isin(op, NAMES_POOL)
    pool = stored.columns.get("pool", np.zeros(0, np.int64))
    age, size_index = stored.columns["age"], stored.columns["size_index"]
    if (len(age), len(size_index), len(pool)) != (
        *(with_block.sum(), allocs.sum()),
        pool_events.sum(),
    ):
        raise ValueError("its columns do not belong together")
    block = np.full(len(op), -1, dtype=np.int64)
    block[allocs] = np.arange(int(allocs.sum()))
    block[with_block] = np.cumsum(allocs)[with_block] - age.astype(np.int64)
    if int(block[allocs | with_block].min(initial=0)) < 0:
        raise ValueError("an event names a block from before the first")
    size = np.zeros(len(op), dtype=np.int64)
    size[allocs] = stored.columns["sizes"].astype(np.int64)[size_index]
    if int(size.min(initial=0)) < 0:
        raise ValueError("a size is beyond all memory")
    size[pool_events] = pool
    origin = dict(stored.header["origin"])
    pools = tuple(map(PoolKind, stored.header.get("pools", ())))
    trace = Trace(what, op.astype(np.uint8), block, size, stream.astype(np.uint8), origin, pools)
    trace.validate()
    return trace
