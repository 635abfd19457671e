"""Writing a file whole: what a fault names, and what it leaves."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from allocmark.documents import write_whole
from allocmark.errors import of_system


@pytest.mark.parametrize("call", ["mkstemp", "fsync"])
@pytest.mark.parametrize(
    ("number", "code", "part"),
    [
        (errno.ENOSPC, 3, "the disk is full: {path} could not be written"),
        (errno.EDQUOT, 3, "the disk is full: {path} could not be written"),
        (errno.EACCES, 2, "{path} cannot be used (Permission denied): name another place"),
        (errno.EROFS, 2, "{path} cannot be used (Read-only file system): name another place"),
    ],
)
def test_a_fault_names_the_file_that_was_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, call: str, number: int, code: int, part: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def failing(*_: object, **__: object) -> None:
        # A write has no name, and the making of a temporary file has its own.
        raise OSError(number, os.strerror(number), *([".writing-x"] if call == "mkstemp" else []))

    with monkeypatch.context() as patch:
        patch.setattr(f"{'tempfile' if call == 'mkstemp' else 'os'}.{call}", failing)
        with pytest.raises(OSError, match="page.html") as raised:
            write_whole(path, b"new")
    told = of_system(raised.value)
    assert told and told.exit_code == code
    assert part.format(path=path) in str(told)
    assert [(p.name, p.read_text()) for p in tmp_path.iterdir()] == [("page.html", "old")]
