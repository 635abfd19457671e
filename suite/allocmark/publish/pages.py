"""The folder that MkDocs makes the site of: the docs, what they link to, and what was built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.documents import write_whole
from allocmark.errors import AllocmarkError

_OUTSIDE = re.compile(r"\]\(\.\./([^)#\s]+\.md)(#[^)\s]*)?\)")
"""A link from a page of the docs to another page of the project."""
CONFIG = "mkdocs.yml"


@dataclass(frozen=True, slots=True)
class Part:
    """What was built beside the docs: the folder's name on the site, and a line about it."""

    name: str
    entry: str
    title: str
    about: str


def write_pages(docs: Path, out: Path, parts: Sequence[Part]) -> None:
    """Copy the docs into `out`, with the pages they link to elsewhere, and write the first page."""
    for path in sorted(docs.glob("*.md")):
        text = _OUTSIDE.sub(lambda link: _copied(docs.parent, out, link), path.read_text("utf-8"))
        write_whole(out / path.name, text.encode())
    for path in docs.glob("*.css"):
        shutil.copyfile(path, out / path.name)
    lines = ["# allocmark", "", "How GPU memory is really allocated, measured.", ""]
    lines += [f"- [{part.title}]({part.name}/{part.entry}): {part.about}" for part in parts]
    lines += ["", "## Documentation", ""]
    lines += [f"- [{_title(path)}]({path.name})" for path in sorted(docs.glob("*.md"))]
    write_whole(out / "index.md", ("\n".join(lines) + "\n").encode())


def make_site(config: Path, pages: Path, out: Path) -> None:
    """Let MkDocs make the site. Raises `AllocmarkError` where it is absent or fails."""
    made = pages.parent / CONFIG
    # Paths in it are relative to it, so it is read where it lies and inherited from here.
    inherited = os.path.relpath(config, made.parent)
    write_whole(made, f"INHERIT: {inherited}\ndocs_dir: {pages.name}\n".encode())
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--clean"]
    command += ["--config-file", str(made), "--site-dir", str(out.absolute())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "No module named mkdocs" in done.stderr:
        raise AllocmarkError("the site needs MkDocs: pip install 'allocmark[site]'")
    if done.returncode != 0:
        raise AllocmarkError(f"MkDocs failed: {(done.stderr or done.stdout).strip()}")


def _copied(project: Path, out: Path, link: re.Match[str]) -> str:
    """Return the link to a copy of the page, which lies with the others on the site."""
    name = link[1].removesuffix(".md").replace("/", "-").lower() + ".md"
    shutil.copyfile(project / link[1], out / name)
    return f"]({name}{link[2] or ''})"


def _title(page: Path) -> str:
    first = page.read_text("utf-8").partition("\n")[0]
    return first.lstrip("# ").strip() or page.stem
