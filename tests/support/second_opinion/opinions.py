"""Which numbers each statement's sentences should have, in their order."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tests.support.second_opinion import contexts, predictions
from tests.support.second_opinion import worked_out as own
from tests.support.second_opinion.raw_record import Record
from tests.support.second_opinion.worked_out import EXPANDABLE, GROWTH, LIMIT, NATIVE, Numbers

EXPECTED: Mapping[str, Callable[[Record], Numbers]] = {
    "ctx-exists": lambda record: [own.total(record, "driver", "context")],
    "ctx-trigger": contexts.trigger,
    "ctx-contents": contexts.contents,
    "ctx-ignored": contexts.ignored,
    "ctx-cause": contexts.cause,
    "ctx-multiple": contexts.multiple,
    "pt-cache": lambda record: [own.shown(record, "reserved", "all freed"), *own.hits(record)],
    "pt-empty-cache": lambda record: [own.given_back(record), own.half_given_back(record)],
    "pt-empty-cache-smi": lambda record: [
        own.half_given_back(record),
        own.pinned(record),
        own.given_back(record),
    ],
    "pt-summary": own.summary,
    "pt-counters": own.counters,
    "pt-counters-cached": own.cached,
    "pt-big-block": own.big_block,
    "pt-fewer-calls": own.fewer_calls,
    "pt-big-block-waste": own.waste,
    "pt-stream-pools": own.stream_pools,
    "pt-no-lock": own.no_lock,
    "pt-late-free": own.late_free,
    "pt-late-free-frag": lambda record: own.needs_more(record, NATIVE, "cuda-malloc"),
    "tf-greedy": own.greedy,
    "tf-greedy-when": lambda record: [
        own.greedy_share(record, "device created"),
        own.greedy_share(record),
    ],
    "tf-greedy-gpus": own.greedy_gpus,
    "tf-bfc": lambda record: [],
    "tf-bfc-when": lambda record: [],
    "tf-growth": own.growth,
    "tf-limit": own.limited,
    "tf-both": own.both_settings,
    "growth-best": own.growth_best,
    "two-models": own.second_ones,
    "two-models-growth": lambda record: [
        own.policy(record, "pair_live_bytes", GROWTH, second=GROWTH, process="second")
    ],
    "cmp-default": lambda record: [*own.default_torch(record), own.greedy_share(record)],
    "cmp-default-pt": own.default_torch,
    "cmp-default-tf": lambda record: [own.greedy_share(record)],
    "cmp-frag": lambda record: [
        *own.needs_more(record, NATIVE, LIMIT),
        own.median(own.over_workloads(record, "capacity", "capacity_ratio", EXPANDABLE).values()),
    ],
    "cmp-process": lambda record: [*own.shared("torch")(record), *own.shared(GROWTH)(record)],
    "cmp-process-pt": own.shared("torch"),
    "cmp-process-tf": own.shared(GROWTH),
    "cmp-reclaim": lambda record: [
        *own.reclaimed_torch(record),
        *own.reclaimed_tensorflow(record),
    ],
    "cmp-reclaim-pt": own.reclaimed_torch,
    "cmp-reclaim-tf": own.reclaimed_tensorflow,
    "flow": own.flow,
    "rule-difference": own.difference,
    "rule-30": predictions.rule_30,
    "rule-version": lambda record: [
        *(1.4, 1.9, len(own.runs(record, "retries"))),
        *(27361, 2019, 1.3, 1.4),
    ],
    "rule-retries": predictions.rule_retries,
    "most-oom": predictions.most_failures,
    "not-size": predictions.not_size,
}
