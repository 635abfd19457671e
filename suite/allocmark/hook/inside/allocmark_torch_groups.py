"""torch's fake process group, with what memory and Python see of the real one around it.

`FakeProcessGroup` sends nothing, and its works have no values, which DDP takes from them. NCCL's
group also allocates from torch's allocator itself: a flat copy of the list of tensors of
`all_gather` and `reduce_scatter` while it runs, and a number for `barrier` (ProcessGroupNCCL.cpp).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

_NCCL = "nccl"


def register(c10d: Any, backends: Mapping[str, str], note: Callable[[str], None]) -> str:
    """Return the name of a backend that stands for some, by device; `note` hears of lost values."""
    import torch

    flattens = backends.get("cuda") == _NCCL

    class Group(c10d.ProcessGroup):  # type: ignore[misc]
        """Answers what matters itself, and everything else by torch's fake backend."""

        def __init__(self, rank: int, size: int) -> None:
            super().__init__(rank, size)
            core = torch._C._distributed_c10d
            create = getattr(core.FakeProcessGroup, "_create_internal", core.FakeProcessGroup)
            self.fake = create(rank, size)
            for device in backends:
                kind = core.ProcessGroup.BackendType.CUSTOM
                self._register_backend(torch.device(device), kind, self.fake)
            self._set_default_backend(core.ProcessGroup.BackendType.CUSTOM)

        def allreduce(self, tensors: Sequence[Any], opts: Any = None) -> Any:
            return _done(tensors)

        def broadcast(self, tensors: Sequence[Any], opts: Any = None) -> Any:
            if tensors[0].device.type == "cpu" and opts and opts.rootRank != self.rank():
                note("broadcast")
            return _done(tensors)

        def allgather(
            self, outputs: Sequence[Sequence[Any]], inputs: Sequence[Any], opts: Any = None
        ) -> Any:
            flat = _flat(outputs[0]) if flattens else None
            for output in outputs[0]:
                output.copy_(inputs[0])
            del flat
            return _done(outputs[0])

        def reduce_scatter(
            self, outputs: Sequence[Any], inputs: Sequence[Sequence[Any]], opts: Any = None
        ) -> Any:
            if flattens:
                _flat(inputs[0])
            return _done(outputs)

        def barrier(self, opts: Any = None) -> Any:
            if flattens:
                torch.empty(1, dtype=torch.float32, device="cuda")
            return _done([])

    name = "allocmark_" + "_".join(f"{device}_{own}" for device, own in sorted(backends.items()))
    if name.upper() not in c10d.Backend._plugins:
        c10d.Backend.register_backend(
            name,
            lambda options, _more=None: Group(options.group_rank, options.group_size),
            extended_api=True,
            devices=list(backends),
        )
    return name


def _flat(tensors: Sequence[Any]) -> Any:
    """Return the flat copy that NCCL's group makes of tensors of one size, None of others."""
    first = tensors[0]
    if not first.is_cuda or any(tensor.shape != first.shape for tensor in tensors):
        return None
    return first.new_empty((len(tensors), *first.shape))


def _done(values: Sequence[Any]) -> Any:
    """Return a work that is done and has values."""
    import torch

    future = torch.futures.Future()
    future.set_result(list(values))
    return torch._C._distributed_c10d._create_work_from_future(future)
