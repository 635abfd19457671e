"""Training a language model (transformers' GPT-2) on batches of mixed lengths, with accumulation.

Each step adds the gradients of two batches whose count and length are drawn anew; the logits over
the vocabulary are the largest tensors.
"""

import random

import torch
from transformers import GPT2Config, GPT2LMHeadModel

SEED, STEPS, ACCUMULATED, VOCABULARY = 20_273, 9, 2, 50_257
BATCHES, LENGTHS = (2, 4, 6, 8), range(64, 513, 32)
CUDA = torch.device("cuda")


def main() -> None:
    """Train from random weights."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    with CUDA:
        model = GPT2LMHeadModel(GPT2Config(n_layer=8, n_embd=1024, n_head=16))
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(STEPS):
        for _ in range(ACCUMULATED):
            shape = (draw.choice(BATCHES), draw.choice(LENGTHS))
            tokens = torch.randint(VOCABULARY, shape, device=CUDA)
            with torch.autocast("cuda", torch.bfloat16):
                loss = model(tokens, labels=tokens).loss
            (loss / ACCUMULATED).backward()
            del tokens, loss
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
