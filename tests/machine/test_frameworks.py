"""Which frameworks have a stack, and whose subjects it holds."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from allocmark.machine import frameworks
from allocmark.machine.frameworks import Share, found, shares, why_absent
from allocmark.measure import trial
from allocmark.system import interpreters

TORCH = {"torch": "2.11.0+cu130", "torch cuda": "13.0"}
TENSORFLOW = {"tensorflow": "2.21.0", "tensorflow cuda": "12.5"}


@pytest.fixture(autouse=True)
def _nothing_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for framework in frameworks.TRACKED:  # So that what is left out here ends with the test.
        monkeypatch.setenv(f"ALLOCMARK_LEFT_OUT_{framework.upper()}", "")


def install(monkeypatch: pytest.MonkeyPatch, versions: Mapping[str, str | None]) -> None:
    monkeypatch.setattr(frameworks, "installed", lambda framework: versions)


@pytest.mark.parametrize(
    ("versions", "expected"),
    [
        ({}, ("torch",)),
        (TORCH, ("torch",)),
        (TENSORFLOW, ("tensorflow",)),
        (TORCH | TENSORFLOW, ("torch", "tensorflow")),
        ({"torch": "2.11.0+cpu", "torch cuda": None} | TENSORFLOW, ("tensorflow",)),
        ({"torch": "2.11.0+cpu", "torch cuda": None}, ("torch",)),
    ],
)
def test_a_stack_for_each_that_is_installed_with_cuda(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str | None], expected: tuple[str, ...]
) -> None:
    install(monkeypatch, versions)
    assert found() == expected
    assert [one.framework for one in shares()] == list(expected)


def test_what_belongs_to_no_stack_is_measured_once() -> None:
    both = [Share(framework, frameworks.TRACKED) for framework in frameworks.TRACKED]
    for framework in ("cuda", "cupy", "rmm", "jax", "torch"):
        assert [one.holds(framework) for one in both] == [True, False]
    assert [one.holds("tensorflow") for one in both] == [False, True]
    assert Share("torch", ("torch",)).holds("tensorflow")  # And says why it is not measured.


def test_why_there_is_no_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, {"tensorflow": "2.21.0", "tensorflow cuda": None})
    monkeypatch.setenv("ALLOCMARK_PYTHON_TENSORFLOW", "/opt/tf/python")
    assert why_absent("tensorflow") == (
        "tensorflow 2.21.0 of /opt/tf/python is a build without CUDA"
    )
    assert "torch is not installed for" in str(why_absent("torch"))
    interpreters.leave_out("torch", "no room")
    assert why_absent("torch") == "no room"


@pytest.mark.parametrize(
    ("versions", "reasons", "left_out"),
    [
        (TORCH, {}, {"tensorflow"}),
        ({}, {}, {"tensorflow"}),
        (TORCH | TENSORFLOW, {}, set()),
        (TORCH | TENSORFLOW, {"tensorflow": "no libcudnn"}, {"tensorflow"}),
        (TORCH | TENSORFLOW, {"torch": "too old"}, {"torch"}),
        # One always stays, so that every cell has a place for its reason.
        (TORCH | TENSORFLOW, {"torch": "too old", "tensorflow": "no"}, {"torch"}),
    ],
)
def test_the_unusable_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
    versions: dict[str, str | None],
    reasons: dict[str, str],
    left_out: set[str],
) -> None:
    install(monkeypatch, versions)
    monkeypatch.setattr(trial, "why_not", reasons.get)
    assert set(trial.leave_out_unusable()) == left_out
    assert {name for name in frameworks.TRACKED if interpreters.left_out(name)} == left_out
    assert len(found()) >= 1
