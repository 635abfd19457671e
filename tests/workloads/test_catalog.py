"""The catalog: seeded and recorded workloads under one roof."""

from __future__ import annotations

from pathlib import Path

import pytest

from allocmark.system.errors import AllocmarkError, UnknownNameError
from allocmark.workloads import catalog, seeded, trace_file


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the recorded traces into an empty folder of the test's own."""
    monkeypatch.setattr(catalog, "files", lambda _: tmp_path)
    (tmp_path / "recorded").mkdir()
    return tmp_path / "recorded"


def test_seeded_ones_come_first_in_a_fixed_order() -> None:
    assert catalog.names()[: len(seeded.registry())] == [*seeded.registry()]


@pytest.mark.parametrize("name", catalog.names())
def test_everything_named_loads_and_is_sound(name: str) -> None:
    trace = catalog.load(name)
    trace.validate()
    assert trace.name == name
    assert trace.peak_requested_bytes > 0


def test_nothing_recorded_is_no_error(package: Path) -> None:
    assert catalog.names() == [*seeded.registry()]
    package.rmdir()
    assert catalog.names() == [*seeded.registry()]


def test_recorded_ones_are_found_by_file_and_never_scaled(package: Path) -> None:
    trace_file.write(package / "b.trace.gz", seeded.generate("training"))
    trace_file.write(package / "a.trace.gz", seeded.generate("uniform"))
    (package / "README.md").write_text("not a trace")
    assert catalog.names()[-2:] == ["recorded-a", "recorded-b"]
    at_once, scaled = catalog.load("recorded-b"), catalog.load("recorded-b", 20)
    assert at_once.name == "recorded-b"
    assert at_once.peak_requested_bytes == scaled.peak_requested_bytes


def test_a_damaged_recording_names_itself(package: Path) -> None:
    (package / "a.trace.gz").write_bytes(b"\x1f\x8b")
    with pytest.raises(AllocmarkError, match=r"^recorded-a is damaged"):
        catalog.load("recorded-a")


def test_unknown_names_are_refused_with_the_known_ones(package: Path) -> None:
    trace_file.write(package / "a.trace.gz", seeded.generate("uniform"))
    with pytest.raises(UnknownNameError, match=r"'a': choose from uniform, .*, recorded-a$"):
        catalog.load("a")
