"""accelerate with FSDP2: the program that its documentation begins with."""

import sys

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin
from model import batch, blocks, say

plugin = None
if "fsdp" in sys.argv:
    plugin = FullyShardedDataParallelPlugin(
        fsdp_version=2,
        auto_wrap_policy="transformer_based_wrap",
        transformer_cls_names_to_wrap=["Block"],
    )
accelerator = Accelerator(mixed_precision="bf16", fsdp_plugin=plugin)
model = blocks(4)
optimizer = torch.optim.AdamW(model.parameters())
model, optimizer = accelerator.prepare(model, optimizer)
for _ in range(3):
    with accelerator.autocast():
        loss = model(batch()).square().mean()
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
say()
accelerator.end_training()
