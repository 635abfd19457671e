"""A pipeline of one stage a rank, one forward and one backward at a time (1F1B)."""

import os
import sys

import torch
import torch.distributed as dist
from model import TOKENS, WIDTH, batch, blocks, say
from torch.distributed.pipelining import PipelineStage, Schedule1F1B

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "nccl")
rank, size = dist.get_rank(), dist.get_world_size()
device = torch.device("cuda", local)
stage_module = blocks(2)
known = {}
if "shapes" in sys.argv:
    micro = torch.empty(1, TOKENS, WIDTH, device=device)
    known = {"input_args": (micro,), "output_args": (micro,)}
stage = PipelineStage(stage_module, rank, size, device, **known)
schedule = Schedule1F1B(stage, n_microbatches=8, loss_fn=lambda out, _want: out.square().mean())
optimizer = torch.optim.AdamW(stage_module.parameters())
for _ in range(2):
    if rank == 0:
        schedule.step(batch(8))
    elif rank == size - 1:
        schedule.step(target=batch(8))
    else:
        schedule.step()
    optimizer.step()
    optimizer.zero_grad()
say()
dist.destroy_process_group()
