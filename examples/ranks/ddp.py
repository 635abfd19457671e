"""Data parallel, as under torchrun: buckets are built anew after the first step."""

import os
import sys

import torch
import torch.distributed as dist
from model import batch, blocks, say
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
dist.init_process_group(sys.argv[1] if len(sys.argv) > 1 else "nccl")
model = DistributedDataParallel(blocks(3), device_ids=[local], bucket_cap_mb=1)
if "compressed" in sys.argv:
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(batch()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
buckets = model._get_ddp_logging_data().get("rebuilt_bucket_sizes", "")
say(buckets=len(str(buckets).split(",")))
dist.destroy_process_group()
