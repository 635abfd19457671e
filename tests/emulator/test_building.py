"""Building: once, whole, and with a sentence where it cannot be done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from allocmark.emulator import build
from allocmark.system.compiler import compiler
from allocmark.system.errors import AllocmarkError

SOURCES = Path(build.__file__).parent / "src"


def test_no_compiler_is_one_sentence_with_the_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Where nothing is built yet; else that serves, whichever compiler built it."""
    home = build.build()
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr("shutil.which", lambda _name: None)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert build.build() == home
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(AllocmarkError) as raised:
        build.build()
    assert str(raised.value) == (
        "the emulated driver cannot be built: "
        "no C compiler: install gcc or clang, or `pip install ziglang`"
    )


def test_a_compiler_that_fails_is_quoted_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = tmp_path / "cc"
    script.write_text("#!/bin/sh\necho no such luck >&2\nexit 1\n")
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with pytest.raises(AllocmarkError, match=r"cannot be built: cc could not .*: no such luck"):
        build.build()
    left = [path.name for path in (tmp_path / "cache/allocmark").iterdir()]
    assert left == ["emulator.lock"]


def test_a_cache_that_cannot_be_written_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(AllocmarkError, match=r"cannot be written \(.*\): set XDG_CACHE_HOME"):
        build.build()


def test_a_second_build_is_the_first_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Count the compiler's runs: none the second time. Warnings count as failures here."""
    runs = tmp_path / "runs"
    script = tmp_path / "cc"
    real = " ".join(compiler("c"))
    script.write_text(f'#!/bin/sh\necho run >> {runs}\nexec {real} -Werror "$@"\n')
    script.chmod(0o755)
    monkeypatch.setenv("CC", str(script))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = build.build()
    count = len(runs.read_text().splitlines())
    assert build.build() == home
    assert len(runs.read_text().splitlines()) == count
    assert capfd.readouterr() == ("", "")
    assert {path.name for path in home.iterdir()} >= {build.AUDIT, build.DRIVER, "libcudart.so.13"}


@pytest.mark.parametrize("edits", [1, 3])
def test_sources_that_change_meanwhile_are_compiled_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, edits: int
) -> None:
    """A compiler that edits the sources as it reads them: a mixed build must not be kept."""
    sources, done = tmp_path / "src", list[Path]()
    sources.mkdir()
    (sources / "a.c").write_text("int a;\n")
    monkeypatch.setattr(build, "_SOURCES", sources)
    monkeypatch.setattr(build, "_libraries", lambda: ())
    monkeypatch.setattr(build, "_compile_audit", lambda *_: None)

    def compile_and_edit(library: build.Library, command: Sequence[str], folder: Path) -> None:
        (folder / library.name).write_text((sources / "a.c").read_text())
        if len(done) < edits:
            done.append(folder)
            with (sources / "a.c").open("a") as source:
                source.write("int b;\n")

    monkeypatch.setattr(build, "_compile", compile_and_edit)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    if edits == 1:
        home = build.build()
        assert (home / build.DRIVER).read_text() == (sources / "a.c").read_text()
    else:
        with pytest.raises(AllocmarkError, match="change while they are compiled: run .* again"):
            build.build()
    left = {path.name for path in (tmp_path / "cache/allocmark").iterdir()}
    assert left == {"emulator.lock", *([home.name] if edits == 1 else [])}


def test_every_name_of_the_lists_is_exported(tmp_path: Path) -> None:
    home = build.build()
    probe = "import ctypes, sys\nfor path, names in [line.split(':') for line in sys.stdin]:\n"
    probe += "    library = ctypes.CDLL(path)\n"
    probe += "    for name in names.split(): getattr(library, name)\n"
    libraries = [*build._libraries(), build._DRIVER_LIBRARY]
    lines = []
    for library in libraries:
        if library.names:
            names = (SOURCES.parent / "names" / f"{library.names}.txt").read_text().split()
            lines.append(f"{home / library.name}:{' '.join(names)}")
    done = subprocess.run(
        [sys.executable, "-c", probe],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        env={**os.environ, "LD_LIBRARY_PATH": str(home)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert len(lines) >= 8
