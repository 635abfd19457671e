"""The build cache: built once, rebuilt when an ingredient changes, never half built."""

from __future__ import annotations

import ctypes
import shutil
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from allocmark.system import compiler as building
from allocmark.system.errors import NotBuiltError

pytestmark = pytest.mark.fault


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "seven.c"
    path.write_text("int seven(void) { return 7; }\n")
    return path


def test_library_works_and_is_built_once(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = building.shared_library("seven", [source])
    assert ctypes.CDLL(str(path)).seven() == 7
    monkeypatch.setattr(building, "run", lambda command: pytest.fail("built twice"))
    assert building.shared_library("seven", [source]) == path


def test_changed_source_and_flags_make_another_entry(source: Path) -> None:
    first = building.shared_library("seven", [source])
    assert building.shared_library("seven", [source], flags=["-DX"]) != first
    source.write_text("int seven(void) { return 8; }\n")
    second = building.shared_library("seven", [source])
    assert second != first
    assert ctypes.CDLL(str(second)).seven() == 8


def test_error_of_the_compiler_is_told_and_leaves_nothing(source: Path) -> None:
    source.write_text("int seven(void) { return nothing; }\n")
    with pytest.raises(NotBuiltError, match="nothing"):
        building.shared_library("seven", [source])
    assert [p.name for p in building.cache_folder().iterdir()] == ["seven.lock"]


def _truncated(library: Path) -> None:
    library.write_bytes(library.read_bytes()[:100])


def _changed(library: Path) -> None:
    content = bytearray(library.read_bytes())
    content[-1] ^= 1
    library.write_bytes(content)


def _unread(library: Path) -> None:
    library.unlink()
    library.symlink_to(library)


def _only_a_folder(library: Path) -> None:
    shutil.rmtree(library.parent)
    library.parent.mkdir()


def _a_file(library: Path) -> None:
    shutil.rmtree(library.parent)
    library.parent.touch()


_DAMAGES = (_truncated, _changed, _unread, Path.unlink, _only_a_folder, _a_file)


@pytest.mark.parametrize("damage", _DAMAGES)
def test_what_was_damaged_is_built_again(source: Path, damage: Callable[[Path], None]) -> None:
    path = building.shared_library("seven", [source])
    content = path.read_bytes()
    damage(path)
    assert building.shared_library("seven", [source]) == path
    assert path.read_bytes() == content
    assert {p.name for p in building.cache_folder().iterdir()} == {"seven.lock", path.parent.name}


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Take away every compiler, when it is called."""

    def take() -> None:
        monkeypatch.delenv("CC", raising=False)
        monkeypatch.setattr("shutil.which", lambda _name: None)
        monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)

    return take


def test_without_a_compiler_what_was_built_serves_while_it_is_whole(
    source: Path, no_compiler: Callable[[], None]
) -> None:
    path = building.shared_library("seven", [source])
    no_compiler()
    assert building.shared_library("seven", [source]) == path
    with pytest.raises(NotBuiltError, match="no C compiler"):
        building.shared_library("seven", [source], flags=["-DX"])
    path.unlink()
    with pytest.raises(NotBuiltError, match="no C compiler"):
        building.shared_library("seven", [source])


def test_each_compiler_has_an_entry_of_its_own(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = building.shared_library("seven", [source])
    other = tmp_path / "other"
    other.symlink_to(shutil.which("cc") or "")
    monkeypatch.setenv("CC", str(other))
    assert building.shared_library("seven", [source]).parent != first.parent


@pytest.mark.parametrize("base", ["", "relative/cache"])
def test_only_an_absolute_path_names_the_cache(monkeypatch: pytest.MonkeyPatch, base: str) -> None:
    """A relative one would be another folder in each working directory of a program."""
    monkeypatch.setenv("XDG_CACHE_HOME", base)
    assert building.cache_folder() == Path.home() / ".cache/allocmark"


def test_a_user_without_a_home_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(NotBuiltError, match="no home folder: set XDG_CACHE_HOME"):
        building.cache_folder()


def test_no_compiler_is_one_clear_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotBuiltError, match="no C compiler: install gcc"):
        building.compiler("c")


def test_ziglang_serves_where_the_system_has_no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: object())
    assert building.compiler()[1:] == ["-m", "ziglang", "cc"]


def test_named_compiler_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "sh -x")
    assert building.compiler("c") == ["sh", "-x"]


def _file(cache: Path) -> None:
    cache.touch()


def _folder_that_is_a_file(cache: Path) -> None:
    cache.mkdir()
    (cache / "allocmark").touch()


def _nowhere(cache: Path) -> None:
    cache.symlink_to("/proc/self/nowhere")  # Nobody may make a folder there, root neither.


def _lock_that_is_a_folder(cache: Path) -> None:
    (cache / "allocmark" / "seven.lock").mkdir(parents=True)


@pytest.mark.parametrize("spoil", [_file, _folder_that_is_a_file, _nowhere, _lock_that_is_a_folder])
def test_cache_that_cannot_be_written(
    tmp_path: Path, source: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(tmp_path / "cache")
    told = rf"{tmp_path}/cache/allocmark cannot be written \(.+\): set XDG_CACHE_HOME to a folder"
    with pytest.raises(NotBuiltError, match=told):
        building.shared_library("seven", [source])


def test_concurrent_builders_build_once() -> None:
    built: list[Path] = []
    threads = [
        threading.Thread(target=building.filled, args=(building.entry("x", ["a"]), built.append))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
