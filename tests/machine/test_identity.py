"""Whether a result file of asv belongs to this stack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from allocmark.machine.identity import refuse_to_mix
from allocmark.system.errors import AllocmarkError


def test_a_result_file_of_the_same_identity_may_grow(tmp_path: Path) -> None:
    file = tmp_path / "abc-stack.json"
    refuse_to_mix(file, {"driver": "580"})
    file.write_text(json.dumps({"params": {"driver": "580", "cpu": "x"}}))
    refuse_to_mix(file, {"driver": "580", "new": "1"})


def test_a_result_file_of_another_identity_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "abc-stack.json"
    file.write_text(json.dumps({"params": {"driver": "570", "cpu": "x"}}))
    with pytest.raises(AllocmarkError, match="driver '570' is now '580'") as refused:
        refuse_to_mix(file, {"driver": "580", "cpu": "x"})
    assert refused.value.exit_code == 2
    assert json.loads(file.read_text())["params"]["driver"] == "570"


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"params": 1}'])
def test_a_damaged_result_file_is_refused(tmp_path: Path, content: str) -> None:
    file = tmp_path / "abc-stack.json"
    file.write_text(content)
    with pytest.raises(AllocmarkError, match="damaged"):
        refuse_to_mix(file, {"driver": "580"})
