"""Training a decoder-only transformer with AdamW on batches of mixed sequence lengths.

8 layers of width 1,280 with 20 heads, vocabulary 32,000 (tied), about 200 million parameters in
fp32, bf16 autocast, batch 4, a length from 128 to 1,024 tokens drawn for each step (a multiple of
8, as padding makes it), gradients clipped and dropped after each step. Attention is torch's flash
kernel, named so that no other version picks another one.
"""

from __future__ import annotations

import random
from typing import Any

from allocmark.system.message import Message

DESCRIPTION = Message(
    "recorded on a GPU: training a transformer, another sequence length each step"
)
ORDER = 0
STEPS = 14
_SEED = 20_251
_LAYERS, _WIDTH, _HEADS, _VOCABULARY, _BATCH = 8, 1280, 20, 32_000, 4
_LENGTHS = range(128, 1025, 8)


def run(steps: int, device: int) -> None:
    """Train for `steps` steps from scratch."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import cross_entropy

    torch.manual_seed(_SEED)
    lengths = random.Random(_SEED).choices(_LENGTHS, k=steps)
    cuda: Any = torch.device("cuda", device)
    parts = _parts(cuda)
    optimizer = torch.optim.AdamW(parts.parameters(), lr=3e-4, weight_decay=0.1)
    for length in lengths:
        tokens = torch.randint(0, _VOCABULARY, (_BATCH, length + 1), device=cuda)
        autocast = torch.autocast("cuda", torch.bfloat16, cache_enabled=False)
        with autocast, sdpa_kernel(SDPBackend.FLASH_ATTENTION):
            logits = _forward(parts, tokens[:, :-1])
            loss: Any = cross_entropy(logits.flatten(0, 1).float(), tokens[:, 1:].flatten())
        del logits
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parts.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del tokens, loss
    torch.cuda.synchronize(cuda)


def _parts(cuda: Any) -> Any:
    """Return the layers of the model, a ``ModuleDict`` on the GPU."""
    from torch import nn

    def layer() -> nn.ModuleDict:
        return nn.ModuleDict(
            {
                "attention_norm": nn.LayerNorm(_WIDTH),
                "qkv": nn.Linear(_WIDTH, 3 * _WIDTH),
                "projection": nn.Linear(_WIDTH, _WIDTH),
                "mlp_norm": nn.LayerNorm(_WIDTH),
                "up": nn.Linear(_WIDTH, 4 * _WIDTH),
                "down": nn.Linear(4 * _WIDTH, _WIDTH),
            }
        )

    model = nn.ModuleDict(
        {
            "tokens": nn.Embedding(_VOCABULARY, _WIDTH),
            "positions": nn.Embedding(max(_LENGTHS), _WIDTH),
            "layers": nn.ModuleList(layer() for _ in range(_LAYERS)),
            "norm": nn.LayerNorm(_WIDTH),
        }
    )
    return model.to(cuda)


def _forward(parts: Any, tokens: Any) -> Any:
    import torch
    from torch.nn.functional import gelu, linear, scaled_dot_product_attention

    batch, length = tokens.shape
    places = torch.arange(length, device=tokens.device)
    hidden = parts["tokens"](tokens) + parts["positions"](places)
    for layer in parts["layers"]:
        qkv = layer["qkv"](layer["attention_norm"](hidden))
        heads = qkv.view(batch, length, 3, _HEADS, _WIDTH // _HEADS).permute(2, 0, 3, 1, 4)
        queries, keys, values = heads.unbind()
        mixed = scaled_dot_product_attention(queries, keys, values, is_causal=True)
        hidden = hidden + layer["projection"](mixed.transpose(1, 2).flatten(2))
        hidden = hidden + layer["down"](gelu(layer["up"](layer["mlp_norm"](hidden))))
    return linear(parts["norm"](hidden), parts["tokens"].weight)
