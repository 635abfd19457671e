"""Lets asv's pages do without the network: what they fetch from elsewhere is put beside them.

asv's index.html loads jQuery, Flot and Bootstrap from four content delivery networks. npm brings
the same versions, with the hashes of `scripts/package-lock.json`, from where the user has it look.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from importlib.resources import as_file, files
from pathlib import Path

from allocmark.schema.documents import write_whole

_FOLDER = "scripts"
_FETCHED = re.compile(r'(?P<head><(?:script|link rel="stylesheet") (?:src|href)=")https:/{2}[^">]*?'
                      r'(?P<name>[^/">]+)"[^>]*>')  # fmt: skip
_FILES = {
    "jquery-3.3.1.min.js": "jquery/dist/jquery.min.js",
    "jquery.flot.min.js": "jquery-flot/jquery.flot.js",
    "jquery.flot.time.min.js": "jquery-flot/jquery.flot.time.js",
    "jquery.flot.selection.min.js": "jquery-flot/jquery.flot.selection.js",
    "jquery.flot.categories.min.js": "jquery-flot/jquery.flot.categories.js",
    "jquery.flot.orderBars.js": "flot-orderbars/js/jquery.flot.orderBars.js",
    "stupidtable.min.js": "stupid-table-plugin/stupidtable.min.js",
    "md5.min.js": "blueimp-md5/js/md5.min.js",
    "bootstrap.min.js": "bootstrap/dist/js/bootstrap.min.js",
    "bootstrap.min.css": "bootstrap/dist/css/bootstrap.min.css",
}
"""What a page fetches, by the last part of its address, and where npm puts it."""


def take_offline(site: Path, scratch: Path) -> str | None:
    """Put what asv's pages in `site` fetch beside them; returns in words why that did not work.

    `scratch` is a new folder for npm.
    """
    index = site / "index.html"
    page = index.read_text("utf-8")
    unknown = {found["name"] for found in _FETCHED.finditer(page)} - _FILES.keys()
    if unknown:
        return f"asv's pages fetch {', '.join(sorted(unknown))} from elsewhere: they need a network"
    if (reason := _install(scratch)) is not None:
        return f"asv's pages fetch their scripts from elsewhere and need a network ({reason})"
    for name, source in _FILES.items():
        target = site / _FOLDER / name
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(scratch / "node_modules" / source, target)
    local = _FETCHED.sub(rf'\g<head>{_FOLDER}/\g<name>">', page)
    write_whole(index, local.encode())
    return None


def _install(folder: Path) -> str | None:
    """Let npm install the locked versions; returns why that did not work."""
    with as_file(files(__package__).joinpath(_FOLDER)) as locked:
        shutil.copytree(locked, folder)
    command = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return "there is no npm to bring them"
    if done.returncode == 0:
        return None
    return f"npm ci failed: {done.stderr.strip().partition(chr(10))[0] or 'no reason'}"
