"""Training an LSTM on packed sequences of mixed lengths, sorted within each batch.

Lengths are drawn anew for every batch, so the sum of steps differs each time; sequences are padded,
packed for the network and padded again for the loss.
"""

import random

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

SEED, STEPS, FEATURES, HIDDEN, CLASSES = 20_271, 24, 256, 1024, 4096
BATCHES, LENGTHS = (64, 96, 128), range(20, 301, 10)
CUDA = torch.device("cuda")


class Tagger(nn.Module):
    """A bidirectional LSTM with a class for each step."""

    def __init__(self) -> None:
        super().__init__()
        self.recurrent = nn.LSTM(FEATURES, HIDDEN, num_layers=2, bidirectional=True)
        self.classes = nn.Linear(2 * HIDDEN, CLASSES)

    def forward(self, batch: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """Return the classes' scores, (longest, batch, CLASSES)."""
        out, _ = self.recurrent(pack_padded_sequence(batch, lengths))
        scores: torch.Tensor = self.classes(pad_packed_sequence(out)[0])
        return scores


def main() -> None:
    """Train from random weights."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    with CUDA:
        model = Tagger()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for _ in range(STEPS):
        count = draw.choice(BATCHES)
        lengths = torch.tensor(sorted((draw.choice(LENGTHS) for _ in range(count)), reverse=True))
        batch = torch.rand(int(lengths[0]), count, FEATURES, device=CUDA)
        wanted = torch.randint(CLASSES, (int(lengths[0]) * count,), device=CUDA)
        loss = nn.functional.cross_entropy(model(batch, lengths).flatten(0, 1), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        del batch, wanted, loss
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
