"""Serving a transformer from six CUDA graphs over one memory pool, with eager training beside them.

A graph is captured for each batch size, the largest first, all from one pool. Between their replays
a perceptron is trained eagerly on batches of other sizes, and halfway two graphs are let go and
one of another batch size is captured.
"""

import random

import torch
from torch import nn

SEED, STEPS, WIDTH, LENGTH = 20_264, 24, 1024, 512
BATCHES, LATE_BATCH, LET_GO = (40, 24, 12, 6, 3, 1), 32, (24, 3)
ROWS = range(1_000, 30_001, 1_000)
CUDA = torch.device("cuda")


class Served:
    """A graph of the model for one batch size, with the memory that its callers fill and read."""

    def __init__(self, model: nn.Module, batch: int, pool: tuple[int, int]) -> None:
        self.given = torch.randn(batch, LENGTH, WIDTH, device=CUDA)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph, pool=pool):
            self.result = model(self.given)

    def __call__(self, given: torch.Tensor) -> torch.Tensor:
        """Return the model's result for a batch of that size."""
        self.given.copy_(given)
        self.graph.replay()
        return self.result.clone()


def warmed_up(model: nn.Module) -> nn.Module:
    """Have the libraries set up what they need, on a stream beside."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        model(torch.randn(2, LENGTH, WIDTH, device=CUDA))
    torch.cuda.current_stream().wait_stream(side)
    return model


def main() -> None:
    """Capture, then serve and train by turns."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    layer = nn.TransformerEncoderLayer(WIDTH, 16, 4 * WIDTH, batch_first=True, norm_first=True)
    encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False).to(CUDA).eval()
    learner = nn.Sequential(nn.Linear(WIDTH, 4096), nn.GELU(), nn.Linear(4096, WIDTH)).to(CUDA)
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-3)
    pool = torch.cuda.graph_pool_handle()
    with torch.no_grad():
        warmed_up(encoder)
        graphs = {batch: Served(encoder, batch, pool) for batch in BATCHES}
        for step in range(STEPS):
            if step == STEPS // 2:
                for batch in LET_GO:
                    del graphs[batch]
                graphs[LATE_BATCH] = Served(encoder, LATE_BATCH, pool)
            batch = draw.choice(list(graphs))
            hidden = graphs[batch](torch.randn(batch, LENGTH, WIDTH, device=CUDA))
            rows = torch.randn(draw.choice(ROWS), WIDTH, device=CUDA)
            with torch.enable_grad():
                loss = (learner(rows) - hidden.mean()).square().mean()
                loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
