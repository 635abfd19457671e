"""A small transformer, and the words with which each program ends."""

from __future__ import annotations

import json

import torch
import torch.distributed as dist
from torch import nn

WIDTH, HEADS, TOKENS = 256, 8, 128


class Block(nn.Module):
    """One layer: attention and a feed-forward part, their products apart for tensor parallelism."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.norm(x)
        batch, tokens = x.shape[0], TOKENS
        q, k, v = (
            part(h).view(batch, tokens, -1, WIDTH // HEADS).transpose(1, 2)
            for part in (self.q, self.k, self.v)
        )
        attended = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, tokens, -1))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


def blocks(count: int) -> nn.Sequential:
    return nn.Sequential(*[Block() for _ in range(count)]).cuda()


def batch(size: int = 4) -> torch.Tensor:
    return torch.randn(size, TOKENS, WIDTH, device="cuda")


def say(**more: object) -> None:
    """Print what the rank is, and its peaks in bytes, as JSON."""
    cuda = torch.cuda
    told = {
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "backend": dist.get_backend(),
        "device": cuda.current_device(),
        "allocated": cuda.max_memory_allocated(),
        "reserved": cuda.max_memory_reserved(),
        **more,
    }
    print(json.dumps(told), flush=True)
