"""An evaluation over ever longer sequences that dies of fragmentation on a 24 GiB card.

What it keeps of each batch pins the cached memory of shorter ones. It fits such a card with
``PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True``.
"""

import torch

WIDTH, BATCH, LONGEST = 1024, 64, 8448


def main() -> None:
    """Evaluate, and keep what a metric needs at the end."""
    model = torch.nn.Sequential(
        torch.nn.Linear(WIDTH, 4 * WIDTH), torch.nn.GELU(), torch.nn.Linear(4 * WIDTH, WIDTH)
    ).cuda()
    kept = []
    with torch.inference_mode():
        for length in range(256, LONGEST + 1, 256):
            tokens = torch.randn(BATCH, length, WIDTH, device="cuda")
            predicted = model(tokens)
            kept.append(predicted[:, -96:].clone())
            del tokens, predicted
    print(f"{len(kept)} batches evaluated")


if __name__ == "__main__":
    main()
