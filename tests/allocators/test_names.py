"""The lists of allocators that others take: names, order and axes come from the allocators."""

from __future__ import annotations

from allocmark.allocators import names, registry
from allocmark.allocators.base import Capability, Tier

TRACKED = [
    *("cuda-malloc", "cuda-malloc-async-0", "cuda-malloc-async-max"),
    *("torch-native", "torch-nocache", "torch-expandable", "torch-async"),
    *("tf-growth", "tf-async"),
]
SETTINGS = [
    *("torch-split64", "torch-split256", "torch-roundup4", "torch-gc80"),
    *("torch-expandable-split64", "torch-expandable-roundup4", "torch-expandable-gc80"),
]


def test_asv_has_series_of_the_same_allocators_on_every_machine() -> None:
    """Whoever changes this changes asv's axes: results of before lie beside other ones then."""
    assert names(tier=Tier.BASE, tracked=True) == TRACKED
    assert names(tracked=True) == TRACKED + SETTINGS
    assert names(tier=Tier.BASE, tracked=True, having=Capability.STREAMS) == [
        *("cuda-malloc-async-0", "cuda-malloc-async-max"),
        *("torch-native", "torch-expandable", "torch-async"),
    ]
    assert names(tier=Tier.BASE, tracked=True, having=Capability.PRIVATE_POOLS) == [
        *("torch-native", "torch-expandable"),
    ]
    assert names(tier=Tier.BASE, having=Capability.CACHE, driver_pool=False) == [
        *("torch-native", "torch-expandable", "tf-growth", "tf-limit"),
    ]


def test_base_allocators_come_first_each_at_a_place_of_its_own() -> None:
    base = names(tier=Tier.BASE)
    assert list(registry())[: len(base)] == base
    assert len({registry()[name].order for name in base}) == len(base)
    others = list(registry())[len(base) :]
    listed = [registry()[name] for name in others]
    assert others == [a.name for a in sorted(listed, key=lambda a: (a.order, a.name))]
    assert {*base, *others} == {*names()}


def test_each_says_what_it_is_and_how_it_is_set() -> None:
    for name, allocator in registry().items():
        assert allocator.description and allocator.configured_by, name
