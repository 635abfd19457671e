"""Tensor parallel by DTensor, with sequence parallel around it where asked for."""

import os
import sys

import torch
import torch.distributed as dist
from model import batch, blocks, say
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)
from torch.distributed.tensor.placement_types import Replicate

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "nccl")
mesh = init_device_mesh("cuda", (dist.get_world_size(),), mesh_dim_names=("tp",))
model = blocks(3)
plain = {
    **{name: ColwiseParallel() for name in ("q", "k", "v", "up")},
    **{name: RowwiseParallel() for name in ("out", "down")},
}
sequence = {
    "norm": SequenceParallel(),
    "norm2": SequenceParallel(),
    **{
        name: ColwiseParallel(input_layouts=Shard(1), output_layouts=Shard(-1))
        for name in ("q", "k", "v", "up")
    },
    **{name: RowwiseParallel(output_layouts=Shard(1)) for name in ("out", "down")},
}
for block in model:
    parallelize_module(block, mesh, sequence if "sequence" in sys.argv else plain)
if "sequence" in sys.argv:
    whole = PrepareModuleInput(
        input_layouts=(Replicate(),), desired_input_layouts=(Shard(1),), use_local_output=True
    )
    parallelize_module(model[0], mesh, whole)
optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
for _ in range(3):
    model(batch()).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
say()
dist.destroy_process_group()
