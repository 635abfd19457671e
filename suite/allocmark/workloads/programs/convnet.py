"""Training a residual convolution net with SGD on batches of mixed image resolutions.

Bottleneck blocks 3, 4, 6, 3 (the shape of ResNet-50, He et al. 2015), batch normalisation, bf16
autocast, batch 64; the side of the images, 160 to 288 pixels, is drawn for each step, and every
fourth step is followed by an evaluation at 320. cuDNN's workspaces are part of what is recorded;
its benchmark mode is off, since that picks algorithms by the time they take.
"""

from __future__ import annotations

import random
from typing import Any

from allocmark.system.message import Message

DESCRIPTION = Message("recorded on a GPU: training a convolution net, another resolution each step")
ORDER = 1
STEPS = 12
_SEED = 20_252
_BATCH, _CLASSES = 64, 1000
_SIDES = range(160, 289, 32)
_EVALUATION_SIDE, _EVALUATE_EVERY = 320, 4
_STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))
"""Inner channels and blocks of each stage; a block gives out four times its inner channels."""


def run(steps: int, device: int) -> None:
    """Train for `steps` steps from scratch."""
    import torch
    from torch.nn.functional import cross_entropy

    torch.manual_seed(_SEED)
    torch.backends.cudnn.benchmark = False
    sides = random.Random(_SEED).choices(_SIDES, k=steps)
    cuda = torch.device("cuda", device)
    parts = _parts().to(cuda)
    optimizer = torch.optim.SGD(parts.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    for step, side in enumerate(sides, start=1):
        images = torch.randn(_BATCH, 3, side, side, device=cuda)
        labels = torch.randint(0, _CLASSES, (_BATCH,), device=cuda)
        with torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
            loss = cross_entropy(_forward(parts, images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del images, labels, loss
        if step % _EVALUATE_EVERY == 0:
            _evaluate(parts, cuda)
    torch.cuda.synchronize(cuda)


def _evaluate(parts: Any, cuda: Any) -> None:
    import torch

    parts.eval()
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, cache_enabled=False):
        images = torch.randn(_BATCH, 3, _EVALUATION_SIDE, _EVALUATION_SIDE, device=cuda)
        _forward(parts, images).argmax(1)
    parts.train()


def _forward(parts: Any, images: Any) -> Any:
    from torch.nn.functional import relu

    hidden = parts["stem"](images)
    for block in parts["blocks"]:
        hidden = relu(block["body"](hidden) + block["shortcut"](hidden), inplace=True)
    return parts["head"](hidden)


def _parts() -> Any:
    """Return the parts of the net, a ``ModuleDict``."""
    from torch import nn

    stem = [
        nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(3, stride=2, padding=1),
    ]
    blocks = []
    channels = 64
    for stage, (inner, count) in enumerate(_STAGES):
        for block in range(count):
            stride = 2 if block == 0 and stage > 0 else 1
            blocks.append(_bottleneck(channels, inner, stride))
            channels = 4 * inner
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, _CLASSES)]
    return nn.ModuleDict(
        {
            "stem": nn.Sequential(*stem),
            "blocks": nn.ModuleList(blocks),
            "head": nn.Sequential(*head),
        }
    )


def _bottleneck(channels: int, inner: int, stride: int) -> Any:
    from torch import nn

    out = 4 * inner
    body = nn.Sequential(
        nn.Conv2d(channels, inner, 1, bias=False),
        nn.BatchNorm2d(inner),
        nn.ReLU(inplace=True),
        nn.Conv2d(inner, inner, 3, stride=stride, padding=1, bias=False),
        nn.BatchNorm2d(inner),
        nn.ReLU(inplace=True),
        nn.Conv2d(inner, out, 1, bias=False),
        nn.BatchNorm2d(out),
    )
    shortcut = nn.Identity()
    if channels != out or stride != 1:
        shortcut = nn.Sequential(
            nn.Conv2d(channels, out, 1, stride=stride, bias=False), nn.BatchNorm2d(out)
        )
    return nn.ModuleDict({"body": body, "shortcut": shortcut})
