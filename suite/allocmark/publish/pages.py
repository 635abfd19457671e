"""The folder that MkDocs makes the site of: the docs, what they link to, and what was built."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from allocmark.schema.documents import write_whole
from allocmark.system.errors import AllocmarkError

_LINK = re.compile(
    r"(?P<image>!?)\[(?P<text>[^\[\]]*)\]\((?P<path>[^)#:\s]+)(?P<fragment>#[^)\s]*)?\)"
)
"""A link from a page to another file of the project, or a picture that it shows."""
_PAGE = ".md"
START = ("my-job-died", "new-gpu-or-driver", "running-nights", "writing-an-allocator")
"""Pages that lead a user from zero to an answer, in the order in which they are listed."""
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
    """Copy the docs into `out`, with the pages they link to elsewhere and the pictures that these
    show, and write the first page.

    Of a link to a file of the project that is no page of the site its words are left.
    """
    names = _names(docs)
    for path, name in names.items():
        is_page = path.suffix == _PAGE
        write_whole(out / name, _relinked(path, names).encode() if is_page else path.read_bytes())
    for path in docs.glob("*.css"):
        shutil.copyfile(path, out / path.name)
    lines = ["# allocmark", "", f"{_about(docs.parent / 'README.md')}", ""]
    lines += [f"- [{part.title}]({part.name}/{part.entry}): {part.about}" for part in parts]
    found = sorted(docs.glob(f"*{_PAGE}"))
    for title, of_users in (("Start here", True), ("Documentation", False)):
        own = [path for path in found if (path.stem in START) is of_users]
        own.sort(key=lambda path: START.index(path.stem) if path.stem in START else len(START))
        lines += ["", f"## {title}", ""] if own else []
        lines += [f"- [{_title(path)}]({path.name})" for path in own]
    write_whole(out / "index.md", ("\n".join(lines) + "\n").encode())


def _about(readme: Path) -> str:
    """Return the paragraph of a README that says what it is, nothing where there is none."""
    if not readme.is_file():
        return ""
    _, about, *_ = [*readme.read_text("utf-8").split("\n\n"), "", ""]
    return about


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
    """Return the files of the site with their names on it: the docs, the pages they link to, and
    the pictures of all of these.
    """
    project = docs.parent.resolve()
    names = {path.resolve(): path.name for path in sorted(docs.glob(f"*{_PAGE}"))}
    for pictures in (False, True):  # Those of the pages that are linked to, too.
        for page in [path for path in names if path.suffix == _PAGE]:
            for path in _linked(page, project, pictures):
                name = "-".join(path.relative_to(project).with_suffix("").parts).lower()
                names.setdefault(path, name + path.suffix)
    return names


def _linked(page: Path, project: Path, pictures: bool) -> Iterator[Path]:
    """Yield the pages of the project that a page links to, or the pictures that it shows."""
    for link in _LINK.finditer(page.read_text("utf-8")):
        path = _target(page, link)
        wanted = link["image"] if pictures else path.suffix == _PAGE and not link["image"]
        if wanted and path.is_file() and path.is_relative_to(project):
            yield path


def _relinked(page: Path, names: Mapping[Path, str]) -> str:
    """Return a page with its links as they are on the site, where all pages are side by side."""

    def relinked(link: re.Match[str]) -> str:
        path = _target(page, link)
        if path in names:
            return f"{link['image']}[{link['text']}]({names[path]}{link['fragment'] or ''})"
        # What is not there is no link that is known here: MkDocs tells which of them is broken.
        return link["text"] if path.exists() else link[0]

    return _LINK.sub(relinked, page.read_text("utf-8"))


def _target(page: Path, link: re.Match[str]) -> Path:
    return (page.parent / link["path"]).resolve()


def _title(page: Path) -> str:
    first = page.read_text("utf-8").partition("\n")[0]
    return first.lstrip("# ").strip() or page.stem
