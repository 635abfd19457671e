"""Seeded workloads whose sizes follow from the dimensions of a model: training and serving.

They are written down from how such programs allocate, not recorded: the recorded workloads are
the check on them.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from allocmark.system.message import Message
from allocmark.system.units import GIB, MIB
from allocmark.workloads.building import Builder, Draws, workload

_FLOAT = 4
_HALF = 2
_MATMUL_WORKSPACE_BYTES = 32 * MIB
"""What torch asks for once for cuBLAS on a GPU of compute capability 9 (CUDABlas workspaces)."""


@dataclass(frozen=True, slots=True)
class _Transformer:
    """Dimensions of a decoder-only transformer; `width` is the hidden size."""

    layers: int
    width: int
    vocabulary: int

    def layer_parameters(self) -> list[int]:
        """Return the elements of each parameter tensor of one layer, in order of creation."""
        w = self.width
        attention = [w, w, 3 * w * w, 3 * w, w * w, w]
        mlp = [w, w, 4 * w * w, 4 * w, 4 * w * w, w]
        return attention + mlp

    def parameters(self) -> list[int]:
        """Return the elements of each parameter tensor: embedding, layers, final norm."""
        layers = self.layer_parameters() * self.layers
        return [self.vocabulary * self.width, *layers, self.width, self.width]


@workload(
    "training",
    Message("eight steps of training a transformer on sequences of varying length"),
    6,
    tracked=True,
)
def training(draws: Draws, scale: float) -> Builder:
    """Build eight steps of training a transformer with AdamW on sequences of varying length.

    Stands for language-model training in bf16 with fp32 parameters. Shape: 6 layers, width 768,
    vocabulary 16,384, batch 4; the step's length is drawn from 128 to 1,024 tokens in steps of
    32; activations are kept through the forward pass and freed layer by layer through the
    backward pass, where gradients appear; the optimizer state appears at the first step; the
    cuBLAS workspace stays. Width and batch grow with the square root of `scale`, so parameters
    and activations both grow with it (in steps of 64 and of one sequence). Not for the memory
    that a given model needs: checkpointing, fusion and parallelism change it.
    """
    model = _Transformer(layers=6, width=_multiple(768 * sqrt(scale), 64), vocabulary=16_384)
    batch = max(1, round(4 * sqrt(scale)))
    trace = Builder()
    for elements in model.parameters():
        trace.alloc(elements * _FLOAT)
    trace.alloc(_MATMUL_WORKSPACE_BYTES)
    for step in range(8):
        tokens = batch * 32 * (4 + draws.below(29))
        gradients = _forward_and_backward(trace, model, tokens)
        if step == 0:
            for elements in model.parameters():
                trace.alloc(elements * _FLOAT)
                trace.alloc(elements * _FLOAT)
        trace.free(*gradients)
    return trace


def _forward_and_backward(trace: Builder, model: _Transformer, tokens: int) -> list[int]:
    """Add one step; returns the gradients, which the optimizer still needs."""
    row = tokens * model.width * _HALF
    inputs = trace.alloc(tokens * 8)
    hidden = trace.alloc(row)
    kept: list[list[int]] = []
    for _ in range(model.layers):
        weights = [trace.alloc(n * _HALF) for n in model.layer_parameters() if n > 4 * model.width]
        activations = [trace.alloc(row * parts) for parts in (1, 3, 1, 1)]  # norm, qkv, attention
        activations += [trace.alloc(row * parts) for parts in (1, 4, 4, 1)]  # norm, mlp, residual
        trace.free(*weights)  # autocast's copies
        kept.append(activations)
    logits = trace.alloc(tokens * model.vocabulary * _HALF)
    full = trace.alloc(tokens * model.vocabulary * _FLOAT)  # The loss is taken in fp32.
    trace.pass_through(tokens * _FLOAT)
    gradients: list[int] = []
    flow = trace.alloc(tokens * model.vocabulary * _HALF)
    trace.free(full, logits)
    gradients += [trace.alloc(n * _FLOAT) for n in (model.width, model.width)]
    gradients.append(trace.alloc(model.vocabulary * model.width * _FLOAT))
    trace.free(flow)
    flow = trace.alloc(row)
    for activations in reversed(kept):
        for size, activation in zip((4, 4, 1, 1, 1, 3, 1, 1), reversed(activations), strict=True):
            following = trace.alloc(row * size)
            trace.free(flow, activation)
            flow = following
        trace.pass_through(2 * row)  # The attention's backward pass sums in fp32.
        gradients += [trace.alloc(n * _FLOAT) for n in model.layer_parameters()]
    trace.free(flow, hidden, inputs)
    return gradients


_REQUESTS = 24
"""How many requests the server of `kv_cache` works on at once."""


@dataclass(slots=True)
class _Request:
    """One request being served: a block for each layer, with room for `room` tokens."""

    tokens: int
    end: int
    room: int
    blocks: list[int]


@workload(
    "kv-cache",
    Message("a server's key and value caches, each doubling as it fills"),
    7,
    tracked=True,
)
def kv_cache(draws: Draws, scale: float) -> Builder:
    """Build a server's key and value caches: requests come and go, each cache doubles as it fills.

    Stands for generation with contiguous caches, one tensor for each layer and request. Shape: 8
    layers of 12 KiB x scale a token (keys and values, width 3,072, bf16); prompts of 32 to 1,024
    tokens, answers of 16 to 1,024, both log-uniform; up to 24 requests; a full cache is copied
    to one of twice the room, so old and new are alive together, layer by layer; when
    1.25 GiB x scale are alive the youngest request is dropped. Each round of 32 tokens passes
    through its activations and logits. `scale` stands for a wider model; lengths stay. Not for
    servers with paged caches (vLLM and others), which allocate once.
    """
    layers, budget = 8, round(1.25 * GIB * scale)
    token_bytes = _multiple(12 * 1024 * scale, 16)
    trace = Builder()
    active: list[_Request] = []

    def drop(request: _Request) -> None:
        active.remove(request)
        trace.free(*request.blocks)

    for _ in range(64):
        for _ in range(draws.below(5)):
            prompt = draws.log_uniform(32, 1024)
            room = 1 << (prompt - 1).bit_length()
            need = layers * room * token_bytes
            if len(active) < _REQUESTS and trace.live_bytes + need <= budget:
                # The prompt's activations pass through while its caches are filled.
                trace.pass_through(prompt * token_bytes)
                blocks = [trace.alloc(room * token_bytes) for _ in range(layers)]
                end = prompt + draws.log_uniform(16, 1024)
                active.append(_Request(prompt, end, room, blocks))
        trace.pass_through(len(active) * token_bytes)
        trace.pass_through(len(active) * 32_000 * _FLOAT)
        for request in list(active):
            if request not in active:
                continue  # Dropped to make room for an older one.
            request.tokens += 32
            if request.tokens >= request.end:
                drop(request)
            elif request.tokens > request.room:
                doubled = 2 * request.room * token_bytes
                growth = layers * request.room * token_bytes + doubled
                while active[-1] is not request and trace.live_bytes + growth > budget:
                    drop(active[-1])
                _double(trace, request, doubled)
    return trace


def _double(trace: Builder, request: _Request, doubled_bytes: int) -> None:
    request.room *= 2
    for layer, old in enumerate(request.blocks):
        request.blocks[layer] = trace.alloc(doubled_bytes)
        trace.free(old)


def _multiple(value: float, step: int) -> int:
    """Return the multiple of `step` nearest to `value`, at least one of it."""
    return step * max(1, round(value / step))
