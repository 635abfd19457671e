"""The lists of allocators that others take: names, order and axes come from the allocators."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from allocmark.allocators import names, registry
from allocmark.allocators.base import Capability, Stats, Tier
from allocmark.system.errors import NotMeasurableError

pytestmark = pytest.mark.fault

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


_OWN = """
from allocmark.allocators.base import Allocator, Stats

class Mine(Allocator):
    framework = "cuda"
    def open(self, device): pass
    def alloc(self, size_bytes, stream=0): return 1
    def free(self, block, stream=0): pass
    def {method}(self): return {value}

ALLOCATORS = (Mine("mine"),)
"""


@pytest.mark.parametrize(
    ("method", "value", "told"),
    [
        ("stats", "Stats(reserved_bytes='12')", "reserved_bytes of mine.stats() is of type str"),
        ("stats", "Stats(ooms=1.5)", "ooms of mine.stats() is of type float (1.5) where a whole"),
        ("stats", "Stats(segments=[])", "segments of mine.stats() is of type list"),
        ("stats", "{'reserved_bytes': 1}", "mine.stats() is of type dict"),
        ("stats", "None", "mine.stats() is of type NoneType"),
        ("largest_free_bytes", "b'1'", "mine.largest_free_bytes() is of type bytes"),
        ("used_extent_bytes", "'x'", "mine.used_extent_bytes() is of type str"),
        ("segment_map", "[1]", "mine.segment_map() is of type list ([1]) where a list of pairs"),
        ("segment_map", "[(1, '2')]", "mine.segment_map() is of type list"),
        ("driver_requests", "7", "mine.driver_requests() is of type int"),
    ],
)
def test_what_an_own_allocator_tells_is_refused_as_it_is_read(
    tmp_path: Path, method: str, value: str, told: str
) -> None:
    """By the method and the type: written down it would be a damaged document."""
    (tmp_path / "mine.py").write_text(_OWN.format(method=method, value=value))
    mine = registry(tmp_path / "mine.py")["mine"]
    with pytest.raises(NotMeasurableError, match=re.escape(told)):
        getattr(mine, method)()


def test_what_an_own_allocator_tells_rightly_is_passed_on_as_plain_numbers(tmp_path: Path) -> None:
    value = "Stats(reserved_bytes=__import__('numpy').int64(12), ooms=True)"
    (tmp_path / "mine.py").write_text(_OWN.format(method="stats", value=value))
    mine = registry(tmp_path / "mine.py")["mine"]
    found = mine.stats()
    assert found == Stats(reserved_bytes=12, ooms=1)
    assert type(found.reserved_bytes) is int
    assert (mine.segment_map(), mine.largest_free_bytes()) == (None, None)
