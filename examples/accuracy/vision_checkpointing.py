"""Training a vision transformer (torchvision) with activation checkpointing and mixed precision.

Every second block is computed again in the backward pass; batches are of mixed size, and each third
step evaluates a larger one without gradients.
"""

import random

import torch
from torch.nn.functional import cross_entropy
from torch.utils.checkpoint import checkpoint
from torchvision.models import vit_b_16

SEED, STEPS, SIDE, CLASSES = 20_275, 10, 224, 1000
BATCHES = (24, 40, 56, 72)
CUDA = torch.device("cuda")


class Checkpointed(torch.nn.Module):
    """A block that keeps its input alone."""

    def __init__(self, block: torch.nn.Module) -> None:
        super().__init__()
        self.block = block

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Return the block's output."""
        out: torch.Tensor = checkpoint(self.block, tokens, use_reentrant=False)
        return out


def main() -> None:
    """Train from random weights."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    with CUDA:
        model = vit_b_16(weights=None)
    layers = model.encoder.layers
    for number in range(0, len(layers), 2):
        layers[number] = Checkpointed(layers[number])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(1, STEPS + 1):
        count = draw.choice(BATCHES)
        images = torch.rand(count, 3, SIDE, SIDE, device=CUDA)
        labels = torch.randint(CLASSES, (count,), device=CUDA)
        with torch.autocast("cuda", torch.bfloat16):
            loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del images, labels, loss
        if step % 3 == 0:
            with torch.no_grad():
                model(torch.rand(2 * draw.choice(BATCHES), 3, SIDE, SIDE, device=CUDA))
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
