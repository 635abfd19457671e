"""A server that generates text: requests come and go, key and value caches double as they fill.

Four layers of the width of a 7-billion model (4,096, 32 heads, bf16), no training. Requests
arrive at drawn times with prompts of 128 to 2,048 tokens; each has one cache tensor a layer with
room for its prompt rounded up to 16 tokens; a full cache is copied to one of twice the room; at
most 8 are answered at once, and a request that would take the caches over their budget evicts the
youngest, which starts again later with what it has. Each step answers every request by one token:
projections of all requests together, attention of each by matrix products over its own cache.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allocmark.system.message import Message

if TYPE_CHECKING:
    from torch import Tensor

DESCRIPTION = Message("recorded on a GPU: generation with caches that double as they fill")
ORDER = 2
STEPS = 100
_SEED = 20_253
_LAYERS, _WIDTH, _HEADS, _INNER, _VOCABULARY = 4, 4096, 32, 8192, 32_000
_HEAD = _WIDTH // _HEADS
_ACTIVE = 8
_BUDGET_TOKENS = 10_240
"""Room of all caches together, in tokens: 64 KiB each over the four layers, keys and values."""


@dataclass(eq=False)
class _Request:
    arrival: int
    tokens: int
    """Prompt and what was answered so far."""
    end: int
    caches: list[Tensor] = field(default_factory=list)
    """For each layer keys and values, ``(2, heads, room, head)``."""

    @property
    def room(self) -> int:
        return int(self.caches[0].shape[2]) if self.caches else 0


def run(steps: int, device: int) -> None:
    """Serve for `steps` steps."""
    import torch

    torch.manual_seed(_SEED)
    cuda = torch.device("cuda", device)
    waiting = deque(_arrivals(steps))
    with torch.no_grad():
        weights = _weights(cuda)
        active: list[_Request] = []
        for step in range(steps):
            while waiting and waiting[0].arrival <= step and _fits(active, waiting[0]):
                request = waiting.popleft()
                _prefill(weights, request, cuda)
                active.append(request)
            for request in list(active):
                if request in active and request.tokens == request.room:
                    _grow(request, active, waiting)
            if active:
                _decode(weights, active, cuda)
            for request in [r for r in active if r.tokens >= r.end]:
                active.remove(request)
        torch.cuda.synchronize(cuda)


def _arrivals(steps: int) -> list[_Request]:
    draw = random.Random(_SEED)
    requests = []
    for step in range(steps):
        if draw.random() < 0.6:  # noqa: PLR2004 - the rate at which requests arrive
            prompt = round(128 * 16 ** draw.random())
            requests.append(_Request(step, prompt, prompt + draw.randint(4, 32)))
    return requests


def _first_room(tokens: int) -> int:
    return -(-(tokens + 1) // 16) * 16


def _fits(active: list[_Request], request: _Request) -> bool:
    taken = sum(r.room for r in active) + _first_room(request.tokens)
    return len(active) < _ACTIVE and taken <= _BUDGET_TOKENS


def _grow(request: _Request, active: list[_Request], waiting: deque[_Request]) -> None:
    """Double a request's caches; the youngest others are evicted to keep to the budget."""
    import torch

    while active[-1] is not request and sum(r.room for r in active) + request.room > _BUDGET_TOKENS:
        evicted = active.pop()
        evicted.caches.clear()
        waiting.appendleft(evicted)
    used = request.room
    for layer, old in enumerate(request.caches):
        larger = torch.empty(2, _HEADS, 2 * used, _HEAD, dtype=old.dtype, device=old.device)
        larger[:, :, :used] = old
        request.caches[layer] = larger


def _weights(cuda: Any) -> dict[str, list[Tensor]]:
    import torch

    def matrices(count: int, rows: int, columns: int) -> list[Tensor]:
        made = torch.empty
        kind = torch.bfloat16
        weights = [made(rows, columns, dtype=kind, device=cuda) for _ in range(count)]
        return [weight.normal_(std=0.02) for weight in weights]

    return {
        "embedding": matrices(1, _VOCABULARY, _WIDTH),
        "qkv": matrices(_LAYERS, 3 * _WIDTH, _WIDTH),
        "projection": matrices(_LAYERS, _WIDTH, _WIDTH),
        "gate_up": matrices(_LAYERS, 2 * _INNER, _WIDTH),
        "down": matrices(_LAYERS, _WIDTH, _INNER),
    }


def _prefill(weights: dict[str, list[Tensor]], request: _Request, cuda: Any) -> None:
    """Read a prompt: fill the caches of a request."""
    import torch

    length = request.tokens
    ids = torch.randint(0, _VOCABULARY, (length,), device=cuda)
    hidden = weights["embedding"][0][ids]
    later = torch.ones(length, length, dtype=torch.bool, device=cuda).triu_(1)
    for layer in range(_LAYERS):
        cache = torch.empty(
            2, _HEADS, _first_room(length), _HEAD, dtype=hidden.dtype, device=hidden.device
        )
        request.caches.append(cache)
        queries = _queries(weights, layer, hidden, [(cache, slice(0, length))])
        mixed = _attend(queries, cache[:, :, :length], later)
        hidden = _after_attention(weights, layer, hidden, mixed.transpose(0, 1).flatten(1))
    _next_token(weights, hidden[-1:])


def _decode(weights: dict[str, list[Tensor]], active: list[_Request], cuda: Any) -> None:
    """Answer every active request by one token."""
    import torch

    ids = torch.randint(0, _VOCABULARY, (len(active),), device=cuda)
    hidden = weights["embedding"][0][ids]
    for layer in range(_LAYERS):
        places = [(r.caches[layer], slice(r.tokens, r.tokens + 1)) for r in active]
        queries = _queries(weights, layer, hidden, places)
        mixed = [
            _attend(queries[:, i : i + 1], cache[:, :, : place.stop])
            for i, (cache, place) in enumerate(places)
        ]
        rows = torch.stack([one.flatten() for one in mixed])
        hidden = _after_attention(weights, layer, hidden, rows)
    _next_token(weights, hidden)
    for request in active:
        request.tokens += 1


def _queries(
    weights: dict[str, list[Tensor]], layer: int, hidden: Tensor, places: list[tuple[Tensor, slice]]
) -> Tensor:
    """Return the queries ``(heads, rows, head)``; keys and values go to their places.

    One place takes all rows (a prompt), several take one row each.
    """
    from torch.nn.functional import linear, rms_norm

    qkv = linear(rms_norm(hidden, (_WIDTH,)), weights["qkv"][layer])
    parts = qkv.view(-1, 3, _HEADS, _HEAD).permute(1, 2, 0, 3)
    rows = parts.shape[2] // len(places)
    for i, (cache, place) in enumerate(places):
        cache[:, :, place] = parts[1:, :, i * rows : (i + 1) * rows]
    return parts[0]


def _attend(queries: Tensor, cache: Tensor, hide: Tensor | None = None) -> Tensor:
    scores = queries @ cache[0].transpose(1, 2)
    scores *= _HEAD**-0.5
    if hide is not None:
        scores.masked_fill_(hide, float("-inf"))
    return scores.softmax(-1) @ cache[1]


def _after_attention(
    weights: dict[str, list[Tensor]], layer: int, hidden: Tensor, mixed: Tensor
) -> Tensor:
    from torch.nn.functional import linear, rms_norm, silu

    hidden = hidden + linear(mixed, weights["projection"][layer])
    both = linear(rms_norm(hidden, (_WIDTH,)), weights["gate_up"][layer])
    gate, up = both.chunk(2, dim=-1)
    return hidden + linear(silu(gate) * up, weights["down"][layer])


def _next_token(weights: dict[str, list[Tensor]], hidden: Tensor) -> None:
    """Choose the next token; what it is does not matter to the memory."""
    from torch.nn.functional import linear, rms_norm

    linear(rms_norm(hidden, (_WIDTH,)), weights["embedding"][0]).argmax(-1)
