"""Training a graph attention network (torch-geometric) on graphs of mixed sizes.

Each step has another graph, with numbers of nodes and edges drawn anew: one message for each edge
and head is held for the backward pass.
"""

import random

import torch
from torch.nn.functional import cross_entropy, elu
from torch_geometric.nn import GATConv

SEED, STEPS, FEATURES, CLASSES, HEADS, WIDTH = 20_263, 14, 96, 40, 4, 32
NODES, EDGES_OF_A_NODE = range(20_000, 140_001, 5_000), range(4, 13)
CUDA = torch.device("cuda")


class Network(torch.nn.Module):
    """Three layers of attention over the neighbours."""

    def __init__(self) -> None:
        super().__init__()
        inner = HEADS * WIDTH
        self.layers = torch.nn.ModuleList(
            [GATConv(FEATURES, WIDTH, HEADS), GATConv(inner, WIDTH, HEADS)]
        )
        self.last = GATConv(inner, CLASSES, heads=1)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            nodes = elu(layer(nodes, edges))
        return self.last(nodes, edges)


def main() -> None:
    """Train from random weights."""
    torch.manual_seed(SEED)
    draw = random.Random(SEED)
    model = Network().to(CUDA)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(1, STEPS + 1):
        nodes = draw.choice(NODES)
        edges = torch.randint(0, nodes, (2, nodes * draw.choice(EDGES_OF_A_NODE)), device=CUDA)
        features = torch.randn(nodes, FEATURES, device=CUDA)
        labels = torch.randint(0, CLASSES, (nodes,), device=CUDA)
        loss = cross_entropy(model(features, edges), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 5 == 0:
            with torch.no_grad():
                model(features, edges).argmax(1)
    torch.cuda.synchronize()


if __name__ == "__main__":
    main()
