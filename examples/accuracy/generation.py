"""Generating text with a language model (transformers' Llama), batches and prompts of mixed sizes.

The cache of keys and values grows by concatenation, a token at a time. Prompts of a batch have
different lengths and are padded on the left; each request generates as many tokens as it was drawn.
"""

import random

import torch
from transformers import LlamaConfig, LlamaForCausalLM

SEED, REQUESTS, VOCABULARY = 20_262, 7, 32_000
BATCHES, PROMPTS, TOKENS = (8, 16, 24, 48), range(96, 1025, 32), range(12, 33)
CUDA = torch.device("cuda")


def main() -> None:
    """Serve some requests, one after another."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=2048,
        intermediate_size=5632,
        num_hidden_layers=8,
        num_attention_heads=16,
        num_key_value_heads=16,
        max_position_embeddings=2048,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    torch.set_default_dtype(torch.bfloat16)
    with CUDA:
        model = LlamaForCausalLM(config).eval()
    for _ in range(REQUESTS):
        lengths = [draw.choice(PROMPTS) for _ in range(draw.choice(BATCHES))]
        longest, tokens = max(lengths), draw.choice(TOKENS)
        prompts = torch.randint(1, VOCABULARY, (len(lengths), longest), device=CUDA)
        places = torch.arange(longest, device=CUDA)
        mask = places >= longest - torch.tensor(lengths, device=CUDA)[:, None]
        model.generate(
            prompts.masked_fill(~mask, 0),
            attention_mask=mask.long(),
            min_new_tokens=tokens,
            max_new_tokens=tokens,
            do_sample=True,
            top_k=50,
        )
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
