"""The catalogue of translations: whole, with nothing that nobody says, and none beside it."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from allocmark.compare import thresholds
from allocmark.machine.conditions import Conditions
from allocmark.report.page import page
from allocmark.report.translation import CATALOG, PLACE, catalog, chinese, recognized, rendered
from allocmark.schema.metrics import declared
from allocmark.store import cell_conditions
from allocmark.store.frame import load
from allocmark.store.grid import metric_title
from allocmark.system.message import Message, Recorded, listed, sentences
from tests.support import claims_samples, html_samples, report_samples, texts

PACKAGE = CATALOG.parents[2]
MAKES_OTHERS = {"system/message.py", "report/webpage/writer.py", "report/fleet_page.py"}
"""Modules that make messages of ids which stand elsewhere: in other messages, in the template."""
IN_TEMPLATE = re.compile(r"\b(?:t|zh)\(\"([^\"]+)\"\)")
HAN = re.compile("[\u4e00-\u9fff]")


@cache
def modules() -> dict[str, ast.Module]:
    """Return every module of the suite by its path."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): ast.parse(path.read_text()) for path in paths}


def made(name: str) -> Iterator[ast.expr]:
    """Yield the ids of messages that a module makes, as they stand there."""
    for node in ast.walk(modules()[name]):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Message":
            yield node.args[0]


@cache
def ids() -> frozenset[str]:
    """Return all ids of messages that the suite makes."""
    found = [node for name in modules() for node in made(name)]
    literal = {str(node.value) for node in found if isinstance(node, ast.Constant)}
    templates = "".join(path.read_text() for path in (PACKAGE / "report").rglob("*.html.j2"))
    return frozenset(literal | set(IN_TEMPLATE.findall(templates)))


def test_the_id_of_a_message_is_a_literal() -> None:
    for name in modules().keys() - MAKES_OTHERS:
        others = [node for node in made(name) if not isinstance(node, ast.Constant)]
        assert [f"{name}:{node.lineno}" for node in others] == []


def test_every_message_of_the_suite_is_in_the_catalogue_and_no_other_is() -> None:
    assert sorted(ids() - catalog()["messages"].keys()) == []
    assert sorted(catalog()["messages"].keys() - ids()) == []


@pytest.mark.parametrize("group", ["messages", "record"])
def test_a_translation_has_the_places_of_its_message(group: str) -> None:
    for english, translation in catalog()[group].items():
        places = [set(PLACE.findall(text)) for text in (english, translation)]
        assert places[0] == places[1], english


def test_the_catalogue_is_in_order() -> None:
    for _, group in json.loads(CATALOG.read_text(), object_pairs_hook=list):
        names = [name for name, _ in group]
        assert names == sorted(set(names))


def test_nothing_but_the_catalogue_has_chinese() -> None:
    files = [path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".j2", ".js", ".css"}]
    assert [path.name for path in files if HAN.search(path.read_text())] == []


@cache
def in_code() -> str:
    """Return all that the code says, the titles of metrics, of conditions and of their groups."""
    nodes = (node for tree in modules().values() for node in ast.walk(tree))
    told = {str(node.value) for node in nodes if isinstance(node, ast.Constant)}
    told |= {str(metric_title(name)) for named in declared().values() for name in named}
    told |= {cell_conditions.title(field.name) for field in fields(Conditions)}
    told |= {rule.group for rule in thresholds.load().rules}
    return "\n".join(told)


def is_said(text: str, cuts: int = 2) -> bool:
    """Whether the code says a text, in as many parts as it may put together."""
    if text in in_code():
        return True
    places = [found.start() for found in re.finditer(r"\b", text)] if cuts else []
    return any(text[:at] in in_code() and is_said(text[at:], cuts - 1) for at in places if at)


def test_a_record_can_hold_what_the_catalogue_knows_of_one() -> None:
    made = html_samples.published()
    held = {one for text in texts.of_part(made.part, drawn=False) for one in texts.recorded(text)}
    rest = catalog()["record"].keys() - held
    unknown = [one for one in rest if not all(map(is_said, PLACE.split(one)[::2]))]
    assert sorted(unknown) == []


@pytest.mark.parametrize("emulated", [False, True])
def test_nothing_of_a_small_page_is_untranslated(tmp_path: Path, emulated: bool) -> None:
    report_samples.everything(tmp_path, emulated=emulated)
    shown = page(load(tmp_path))
    for part in shown.parts:
        known = texts.names(part) | {"workload kv-cache", "NVML hides what a process holds"}
        assert texts.untranslated(texts.of_part(part), known) == []


def test_nothing_of_the_verdicts_is_untranslated() -> None:
    for emulated in (False, True):
        (part,) = page(claims_samples.panel(emulated).store).parts
        said = texts.of_part(part, drawn=False)
        assert texts.untranslated(said, texts.names(part)) == []


def test_nothing_of_the_published_page_is_untranslated() -> None:
    made: Any = html_samples.published()
    said = (*texts.of_page(made.page), *texts.of_part(made.part))
    assert texts.untranslated(said, texts.names(made.part)) == []


def test_values_and_sentences_of_a_message_are_rendered_too() -> None:
    whole = Message("Workload {name}: the whole vector", name="{kv-cache}")
    assert str(whole) == "Workload {kv-cache}: the whole vector"
    assert chinese(whole) == "负载 {kv-cache}：全部指标"
    both = sentences(whole, "", Message("{count} GPUs", count="2"))
    assert rendered(both, "en") == "Workload {kv-cache}: the whole vector 2 GPUs"
    assert rendered(both, "zh") == "负载 {kv-cache}：全部指标2 块 GPU"
    assert rendered(listed([Message("yes"), Message("no")]), "zh") == "是；否"
    template = Message("{what}: {text}", what=Message("{count} GPUs"))
    assert rendered(template.filled({"count": "3", "text": "x"}), "zh") == "3 块 GPU：x"
    with pytest.raises(KeyError):
        str(template)


def test_a_record_is_recognized_by_words_and_by_sentences_with_others_in_them() -> None:
    assert rendered(Recorded("half freed"), "zh") == "释放一半后"
    assert recognized("not reached: first kernel: torch is not installed here") == (
        "未到达：第一个内核：torch 在此未安装"
    )
    assert recognized("a sentence of a driver") is None
    assert rendered(Recorded("a sentence of a driver"), "zh") == "a sentence of a driver"
