"""FSDP2 over one mesh dimension; words of the command line choose what is kept."""

import os
import sys

import torch
import torch.distributed as dist
from model import batch, blocks, say
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "nccl")
size = dist.get_world_size()
if "mesh" in sys.argv:
    mesh = init_device_mesh("cuda", (size // 8, 8), mesh_dim_names=("replicate", "shard"))
else:
    mesh = init_device_mesh("cuda", (size,))
model = blocks(4)
for place, block in enumerate(model):
    if "checkpoint" in sys.argv:
        model[place] = checkpoint_wrapper(block)
    fully_shard(model[place], mesh=mesh, reshard_after_forward="kept" not in sys.argv)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(batch()).square().mean().backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
say()
dist.destroy_process_group()
