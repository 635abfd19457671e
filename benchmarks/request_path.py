"""The way of a request through torch's allocator: each branch, and the copy at its end."""

from __future__ import annotations

from allocmark.allocators.torch_caching import NATIVE
from allocmark.asv.cells import Cell, Question
from allocmark.schema.metrics import request_path as metrics


class Branch(Question):
    """One request of 32 MiB on a branch, by torch's raw entry point called from Python."""

    experiment = metrics.EXPERIMENT
    type = "time"
    unit = "seconds"
    params = [list(metrics.TIMED)]
    param_names = ["branch"]

    def track_request(self, branch: str) -> Cell:
        return self.cell(NATIVE, metrics.BRANCH_NS, branch=branch, bytes=metrics.TIMED_BYTES)


class Copy(Question):
    """A copy from memory of the host to the device, until it is there."""

    experiment = metrics.EXPERIMENT
    type = "time"
    unit = "seconds"
    params = [list(metrics.HOSTS), list(metrics.COPIED_BYTES)]
    param_names = ["host", "bytes"]

    def track_copy(self, host: str, size_bytes: int) -> Cell:
        return self.cell(NATIVE, metrics.COPY_NS, host=host, bytes=size_bytes)
