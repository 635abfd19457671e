"""The folder that MkDocs makes the site of: the docs, what they link to, and what was built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.schema.documents import write_whole
from allocmark.system.errors import AllocmarkError

_LINK = re.compile(r"\[(?P<text>[^\[\]]*)\]\((?P<path>[^)#:\s]+)(?P<fragment>#[^)\s]*)?\)")
"""A link from a page to another file of the project."""
_PAGE = ".md"
CONFIG = "mkdocs.yml"
NOT_FOUND = "404.html"


@dataclass(frozen=True, slots=True)
class Part:
    """What was built beside the docs: the folder's name on the site, and a line about it."""

    name: str
    entry: str
    title: str
    about: str


def write_pages(docs: Path, out: Path, parts: Sequence[Part]) -> None:
    """Copy the docs into `out`, with the pages they link to elsewhere, and write the first page.

    Of a link to a file of the project that is no page of the site its words are left.
    """
    names = _names(docs)
    for path, name in names.items():
        write_whole(out / name, _relinked(path, names).encode())
    for path in docs.glob("*.css"):
        shutil.copyfile(path, out / path.name)
    lines = ["# allocmark", "", "How GPU memory is really allocated, measured.", ""]
    lines += [f"- [{part.title}]({part.name}/{part.entry}): {part.about}" for part in parts]
    lines += ["", "## Documentation", ""]
    lines += [f"- [{_title(path)}]({path.name})" for path in sorted(docs.glob("*.md"))]
    write_whole(out / "index.md", ("\n".join(lines) + "\n").encode())


def make_site(config: Path, pages: Path, out: Path) -> None:
    """Let MkDocs make the site, which may lie in any folder of a server.

    Raises `AllocmarkError` where it is absent or fails.
    """
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
    # A server shows it at any address, so its links begin at the server's root, and where below
    # that the site will lie nobody knows yet. The server has a page of its own for what is missing.
    (out / NOT_FOUND).unlink(missing_ok=True)


def _names(docs: Path) -> dict[Path, str]:
    """Return the pages of the site with their names on it: the docs and the pages they link to."""
    project = docs.parent.resolve()
    names = {path.resolve(): path.name for path in sorted(docs.glob(f"*{_PAGE}"))}
    for page in list(names):
        for link in _LINK.finditer(page.read_text("utf-8")):
            path = _target(page, link)
            if path.suffix == _PAGE and path.is_file() and path.is_relative_to(project):
                name = "-".join(path.relative_to(project).with_suffix("").parts).lower()
                names.setdefault(path, name + _PAGE)
    return names


def _relinked(page: Path, names: Mapping[Path, str]) -> str:
    """Return a page with its links as they are on the site, where all pages are side by side."""

    def relinked(link: re.Match[str]) -> str:
        path = _target(page, link)
        if path in names:
            return f"[{link['text']}]({names[path]}{link['fragment'] or ''})"
        # What is not there is no link that is known here: MkDocs tells which of them is broken.
        return link["text"] if path.exists() else link[0]

    return _LINK.sub(relinked, page.read_text("utf-8"))


def _target(page: Path, link: re.Match[str]) -> Path:
    return (page.parent / link["path"]).resolve()


def _title(page: Path) -> str:
    first = page.read_text("utf-8").partition("\n")[0]
    return first.lstrip("# ").strip() or page.stem
