"""Which settings are tried: names, torch's own words, and the recorded one."""

from __future__ import annotations

import pytest

from allocmark.allocators.torch_caching import CONF
from allocmark.replays import settings
from allocmark.system.errors import AllocmarkError, UnknownNameError


def names(asked: list[str], recorded: str | None) -> list[str]:
    return [s.name + "*" * s.recorded for s in settings.choose(asked, recorded)]


def test_the_recorded_setting_is_tried_first_and_once() -> None:
    assert names(["torch-expandable", "torch-native"], "") == ["torch-native*", "torch-expandable"]
    assert names(["torch-expandable"], "expandable_segments:True") == ["torch-expandable*"]
    both = "max_split_size_mb:64,expandable_segments:True"
    assert names(["torch-native"], both) == ["torch-expandable-split64*", "torch-native"]
    assert names(["torch-native"], None) == ["torch-native"]


def test_a_recorded_setting_of_its_own_words() -> None:
    first, _ = settings.choose(["torch-native"], "max_split_size_mb:77")
    assert (first.name, first.conf, first.recorded) == (
        "torch-recorded",
        "max_split_size_mb:77",
        True,
    )
    assert first.line == "PYTORCH_CUDA_ALLOC_CONF=max_split_size_mb:77"


def test_a_recorded_setting_that_only_a_newer_torch_knows_is_left_to_torch() -> None:
    first, _ = settings.choose(["torch-native"], "warp_drive:9")
    assert (first.name, first.conf, first.recorded) == ("torch-recorded", "warp_drive:9", True)


def test_all_of_torch_without_names() -> None:
    assert {"torch-native", "torch-expandable", "torch-split64"} <= set(names([], None))
    assert "tf-greedy" not in names([], None)


def test_a_text_is_a_setting() -> None:
    (only,) = settings.choose(["roundup_power2_divisions:[256:1,512:2],max_split_size_mb:20"], None)
    assert settings.parse(only.name) == {
        "roundup_power2_divisions": "[256:1,512:2]",
        "max_split_size_mb": "20",
    }


@pytest.mark.parametrize("text", ["colour:red", "max_split_size_mb:", "max_split_size_mb:1,x"])
def test_texts_that_torch_does_not_know(text: str) -> None:
    with pytest.raises(AllocmarkError, match="torch knows no setting"):
        settings.choose([text], None)


@pytest.mark.parametrize(
    "text",
    [
        *("max_split_size_mb:abc", "max_split_size_mb:10", "max_split_size_mb:5.5"),
        *("max_split_size_mb:99999999999999999999", "max_split_size_mb:64x"),
        *("garbage_collection_threshold:1", "garbage_collection_threshold:x"),
        *("expandable_segments:true", "backend:foo", "pinned_num_register_threads:3"),
        *("roundup_power2_divisions:3", "roundup_power2_divisions:[256:1,512:3]"),
        *("roundup_power2_divisions:[256:x]", "per_process_memory_fraction:2"),
    ],
)
def test_values_that_torch_does_not_take(text: str) -> None:
    with pytest.raises(AllocmarkError, match=f"torch takes no {text.partition(':')[0]} of"):
        settings.choose(["torch-native", text], "")


def test_a_list_that_does_not_end() -> None:
    with pytest.raises(AllocmarkError, match="a bracket of it is not closed"):
        settings.choose(["roundup_power2_divisions:[256:1,512:2"], None)


def test_every_setting_of_the_suite_has_values_that_torch_takes() -> None:
    texts = [s.allocator.environment.get(CONF, "") for s in settings.choose([], None)]
    for text in filter(None, texts):
        settings.choose([text], None)


def test_names_that_nobody_knows() -> None:
    with pytest.raises(UnknownNameError, match="unknown setting 'torch-fast'"):
        settings.choose(["torch-fast"], None)


def test_lines_for_the_environment() -> None:
    native, uncached, driver = settings.choose(
        ["torch-native", "torch-nocache", "cuda-malloc"], None
    )
    assert native.line == "unset PYTORCH_CUDA_ALLOC_CONF"
    assert uncached.line == "PYTORCH_NO_CUDA_MEMORY_CACHING=1"
    assert driver.line == "(another allocator: cuda-malloc)"
