"""Training a transformer under DistributedDataParallel (NCCL), a world of one process on one GPU.

The wrapper's buckets hold a copy of all gradients; batches of mixed lengths come with gradient
accumulation under `no_sync`.
"""

import random

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

SEED, STEPS, WIDTH, LAYERS = 20_274, 12, 1024, 8
BATCHES, LENGTHS = (4, 8, 12, 16), range(64, 577, 64)
CUDA = torch.device("cuda")


def main() -> None:
    """Train from random weights."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    torch.cuda.set_device(0)
    distributed.init_process_group("nccl", store=distributed.HashStore(), rank=0, world_size=1)
    with CUDA:
        layer = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True)
        model = DistributedDataParallel(nn.TransformerEncoder(layer, LAYERS), device_ids=[0])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(STEPS):
        with model.no_sync():
            model(_batch(draw)).square().mean().backward()
        model(_batch(draw)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()
    distributed.destroy_process_group()


def _batch(draw: random.Random) -> torch.Tensor:
    return torch.rand(draw.choice(BATCHES), draw.choice(LENGTHS), WIDTH, device=CUDA)


if __name__ == "__main__":
    main()
