"""Training a convolution net (torchvision's ResNet-34) on batches that two streams fetch ahead.

Batches of mixed sizes are copied from pinned memory and normalised on streams of their own while
earlier ones are trained on; `record_stream` tells the allocator. When a freed batch can be used
again depends on how far the GPU is.
"""

import random
from collections import deque

import torch
from torch.nn.functional import cross_entropy
from torchvision.models import resnet34

SEED, STEPS, AHEAD, CLASSES = 20_265, 16, 3, 1000
BATCHES, SIDES = (32, 48, 64, 96), range(128, 257, 32)
CUDA = torch.device("cuda")
Batch = tuple[torch.Tensor, torch.Tensor]


def on_host(draw: random.Random) -> Batch:
    """Return images and labels in pinned memory, another shape each time."""
    batch, side = draw.choice(BATCHES), draw.choice(SIDES)
    images = torch.randint(0, 256, (batch, 3, side, side), dtype=torch.uint8)
    return images.pin_memory(), torch.randint(0, CLASSES, (batch,)).pin_memory()


def fetched(batch: Batch, stream: torch.cuda.Stream) -> Batch:
    """Return a batch on the GPU, ready when its stream has come so far."""
    with torch.cuda.stream(stream):
        images, labels = (part.to(CUDA, non_blocking=True) for part in batch)
        return images.float().div_(255).sub_(0.5), labels


def main() -> None:
    """Train from random weights."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    batches = [on_host(draw) for _ in range(STEPS)]
    model = resnet34(weights=None).to(CUDA)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    streams = deque([torch.cuda.Stream(), torch.cuda.Stream()])
    waiting: deque[tuple[Batch, torch.cuda.Stream]] = deque()
    for step in range(STEPS + AHEAD):
        if step < STEPS:
            streams.rotate()
            waiting.append((fetched(batches[step], streams[0]), streams[0]))
        if step < AHEAD:
            continue
        (images, labels), stream = waiting.popleft()
        current = torch.cuda.current_stream()
        current.wait_stream(stream)
        for part in (images, labels):
            part.record_stream(current)
        loss = cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del images, labels
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
