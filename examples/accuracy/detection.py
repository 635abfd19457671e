"""Training an object detector (torchvision's Faster R-CNN) on images of mixed sizes.

Four images a step, each side drawn anew; the shorter one is resized to one of five lengths, and the
batch is padded to its largest image. Every fourth step is followed by an evaluation. How many
boxes survive depends on values that the GPU computed.
"""

import random

import torch
from torchvision.models.detection import fasterrcnn_resnet50_fpn

SEED, STEPS, BATCH, CLASSES, BOXES = 20_261, 10, 4, 21, 12
SIDES = range(320, 1025, 32)
SHORTER_SIDES = (384, 448, 512, 576, 640)
CUDA = torch.device("cuda")


def image(draw: random.Random) -> torch.Tensor:
    """Return one of another height and width each time."""
    return torch.rand(3, draw.choice(SIDES), draw.choice(SIDES), device=CUDA)


def target(draw: random.Random, of: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return some boxes that lie in an image."""
    height, width = of.shape[1:]
    corners = torch.tensor([[draw.random(), draw.random()] for _ in range(BOXES)])
    sides = torch.tensor([[draw.random(), draw.random()] for _ in range(BOXES)])
    corners, sides = 0.6 * corners, 0.1 + 0.3 * sides
    boxes = torch.cat([corners, corners + sides], 1) * torch.tensor([width, height] * 2)
    labels = torch.tensor([draw.randrange(1, CLASSES) for _ in range(BOXES)])
    return {"boxes": boxes.to(CUDA), "labels": labels.to(CUDA)}


def main() -> None:
    """Train from random weights."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    model = fasterrcnn_resnet50_fpn(
        weights=None,
        weights_backbone=None,
        num_classes=CLASSES,
        min_size=SHORTER_SIDES,
        max_size=896,
    ).to(CUDA)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    for step in range(1, STEPS + 1):
        images = [image(draw) for _ in range(BATCH)]
        losses = model(images, [target(draw, each) for each in images])
        loss = sum(losses.values())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del images, losses, loss
        if step % 4 == 0:
            model.eval()
            with torch.no_grad():
                model([image(draw) for _ in range(2)])
            model.train()
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
