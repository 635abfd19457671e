"""asv's pages without a network: all that they fetch is known, and what is missing is told."""

from __future__ import annotations

import json
import re
import stat
from importlib.resources import files
from pathlib import Path

import asv
import pytest

from allocmark.publish.offline import take_offline

OWN_PAGE = Path(asv.__file__).parent / "www" / "index.html"
LOCK = json.loads(files("allocmark.publish").joinpath("scripts/package-lock.json").read_text())


def _site(folder: Path, page: str) -> Path:
    (folder / "site").mkdir()
    (folder / "site" / "index.html").write_text(page)
    return folder / "site"


def _npm(folder: Path, script: str) -> str:
    """Return a PATH with an npm that only does this."""
    npm = folder / "bin" / "npm"
    npm.parent.mkdir()
    npm.write_text(f"#!/bin/sh\n{script}\n")
    npm.chmod(npm.stat().st_mode | stat.S_IXUSR)
    return f"{npm.parent}:/usr/bin:/bin"


def test_nothing_is_fetched_any_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """npm is played by a script that lays down every file which the packages hold."""
    names = "jquery/dist jquery-flot flot-orderbars/js stupid-table-plugin blueimp-md5/js"
    script = f"""
      cd "$PWD" && test -f package-lock.json || exit 1
      for d in {names} bootstrap/dist/js bootstrap/dist/css; do mkdir -p node_modules/$d; done
      cd node_modules
      for f in jquery/dist/jquery.min.js jquery-flot/jquery.flot.js \\
        jquery-flot/jquery.flot.time.js jquery-flot/jquery.flot.selection.js \\
        jquery-flot/jquery.flot.categories.js \\
        flot-orderbars/js/jquery.flot.orderBars.js stupid-table-plugin/stupidtable.min.js \\
        blueimp-md5/js/md5.min.js bootstrap/dist/js/bootstrap.min.js \\
        bootstrap/dist/css/bootstrap.min.css; do echo "$f" >$f; done"""
    monkeypatch.setenv("PATH", _npm(tmp_path, script))
    site = _site(tmp_path, OWN_PAGE.read_text())
    assert take_offline(site, tmp_path / "npm") is None
    page = (site / "index.html").read_text()
    local = re.findall(r'(?:src|href)="([^"]+\.(?:js|css))"', page)
    assert not [name for name in local if "//" in name]
    scripts = [name for name in local if name.startswith("scripts/")]
    assert len(scripts) == 10
    assert all((site / name).is_file() for name in scripts)
    assert "integrity=" not in page


def test_without_npm_the_page_stays_and_the_reason_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    site = _site(tmp_path, OWN_PAGE.read_text())
    assert "need a network (there is no npm" in str(take_offline(site, tmp_path / "npm"))
    assert (site / "index.html").read_text() == OWN_PAGE.read_text()


def test_an_npm_that_fails_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", _npm(tmp_path, "echo no such host >&2; exit 1"))
    site = _site(tmp_path, OWN_PAGE.read_text())
    assert "npm ci failed: no such host" in str(take_offline(site, tmp_path / "npm"))


def test_a_script_that_nobody_knows_is_named(tmp_path: Path) -> None:
    site = _site(tmp_path, f'<script src="https:{"//"}example.org/new.js"></script>')
    assert "new.js" in str(take_offline(site, tmp_path / "npm"))


def test_the_lock_has_hashes_and_no_addresses() -> None:
    packages = {name: one for name, one in LOCK["packages"].items() if name}
    assert len(packages) == 6
    for one in packages.values():
        assert one["integrity"].startswith("sha512-")
        assert "resolved" not in one
