"""Counter files that cannot be believed: one sentence, whatever they hold."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allocmark.explain import counter_file, process
from allocmark.explain.counter_file import Counters
from allocmark.system.errors import AllocmarkError

_DEVICE = {"framework": "torch", "version": "2", "device": 0, "live_bytes": 4}
_DEEP = "[" * 60_000


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of this process, in a runtime folder of the test's own."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    (tmp_path / "allocmark").mkdir(mode=0o700)
    return tmp_path / "allocmark" / f"{os.getpid()}.json"


def me() -> process.Process:
    return process.find(os.getpid())


def content(device: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {
        "format": 1,
        "pid": os.getpid(),
        "start_ticks": me().start_ticks,
        "written_s": time.monotonic(),
        "visible": None,
        "devices": [_DEVICE | (device or {})],
        **more,
    }


def refused(path: Path) -> str:
    with pytest.raises(AllocmarkError) as raised:
        counter_file.read(me())
    words = str(raised.value)
    assert raised.value.exit_code == 2
    assert str(path) in words and "\n" not in words and words.isprintable()
    return words


def test_without_a_file_nothing_is_told(path: Path) -> None:
    assert counter_file.read(me()) is None


def test_what_was_written_is_read(path: Path) -> None:
    path.write_text(json.dumps(content({"reserved_bytes": 16, "most_cached_share": 0.75})))
    told = counter_file.read(me())
    assert told is not None
    assert told.counters == (
        Counters("torch", "2", 0, None, 4, reserved_bytes=16, most_cached_share=0.75),
    )


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '"x"', "NaN", _DEEP, "\x00", '{"format": ' + "9" * 5000 + "}"],
)
def test_other_content_is_refused(path: Path, text: str) -> None:
    path.write_text(text)
    assert "holds no counters" in refused(path)


@pytest.mark.parametrize(
    "more",
    [
        {"format": 2},
        {"format": True},
        {"written_s": "now"},
        {"written_s": 1e300},
        {"written_s": time.monotonic() + 1e6},
        {"devices": {}},
        {"devices": [_DEVICE] * 65},
        {"devices": [None]},
        {"visible": ["0"]},
        {"visible": "0\x1b[2J"},
    ],
)
def test_fields_that_cannot_be_are_refused(path: Path, more: dict[str, Any]) -> None:
    path.write_text(json.dumps(content(**more)))
    assert "holds no counters" in refused(path)


@pytest.mark.parametrize(
    "device",
    [
        {"framework": "other"},
        {"version": "\x1b]0;title\x07"},
        {"version": "x" * 101},
        {"device": -1},
        {"live_bytes": -1},
        {"live_bytes": 1.5},
        {"live_bytes": None},
        {"live_bytes": 1 << 60},
        {"reserved_bytes": 3},
        {"active_bytes": 3, "reserved_bytes": 8},
        {"active_bytes": 6, "reserved_bytes": 8, "inactive_split_bytes": 3},
        {"most_cached_share": 1.1},
        {"retries": "many"},
    ],
)
def test_counters_that_cannot_be_are_refused(path: Path, device: dict[str, Any]) -> None:
    path.write_text(json.dumps(content(device)))
    assert "holds no counters" in refused(path)


@given(
    data=st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(st.sampled_from((*content(), *_DEVICE, "reserved_bytes")), inner)
        ),
        max_leaves=8,
    )
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_there_is_counters_or_one_sentence(path: Path, data: Any) -> None:
    whole = content() | (data if isinstance(data, dict) else {"devices": data})
    path.write_text(json.dumps(whole))
    try:
        counter_file.read(me())
    except AllocmarkError as error:
        assert str(error).isprintable()


def test_of_an_earlier_process_or_too_old_is_refused(path: Path) -> None:
    path.write_text(json.dumps(content(start_ticks=me().start_ticks - 1)))
    assert "an earlier process" in refused(path)
    path.write_text(json.dumps(content(written_s=time.monotonic() - counter_file.OLDEST_S - 1)))
    assert "31 s ago" in refused(path)


def test_links_pipes_and_large_files_are_refused(path: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text(json.dumps(content()))
    path.symlink_to(elsewhere)
    refused(path)
    path.unlink()
    os.mkfifo(path)
    refused(path)
    path.unlink()
    path.write_text(json.dumps(content(more="x" * counter_file.MOST_BYTES)))
    assert "larger than 65536 bytes" in refused(path)
    path.write_text(json.dumps(content()))
    path.parent.chmod(0o755)
    assert "not this user's alone" in refused(path)


@pytest.mark.parametrize("pid", [-1, 0, 1 << 22, 1 << 40])
def test_no_such_process(pid: int) -> None:
    with pytest.raises(AllocmarkError, match="there is no process"):
        process.find(pid)


def test_of_another_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(AllocmarkError, match="another user's"):
        process.find(os.getpid())


def test_foreign_text_is_one_short_line() -> None:
    assert process.printable("a\nb\x1b[2J", 80) == "a b [2J"
    assert process.printable("x" * 81, 80) == "x" * 79 + "…"
