"""The simulation: it imagines little, finds what is large, and counts are found always."""

from __future__ import annotations

import pytest

from allocmark.compare.run_set import RunSet
from allocmark.compare.thresholds import load
from allocmark.tools.power import Power, designs, simulate, text
from allocmark.tools.synthetic_changes import drawn
from tests.support.command import allocmark
from tests.support.compare_samples import document, exact, hits, side

RULES = load()


def _runs(count: int) -> list[RunSet]:
    """Return runs of three allocators whose processes differ by a few percent."""
    factors = (1.0, 1.03, 0.98, 1.02, 0.97, 1.01)
    return [
        side(
            *(
                document(
                    *hits(100 * run + n, process=factors[(run + n) % 6]), exact("ooms", n + 1),
                    subject=f"torch-{n}", run=f"r{run}",
                )
                for n in range(3)
            )
        )
        for run in range(count)
    ]  # fmt: skip


@pytest.fixture(scope="module")
def power() -> Power:
    return simulate(_runs(6), (3, 3), RULES, steps=(0.10, 0.30))


def test_with_nothing_changed_at_most_one_in_a_hundred_is_called_changed(power: Power) -> None:
    assert power.alarms.total > 0
    assert power.alarms.share <= 0.01
    assert power.exact_alarms.hit == 0


def test_every_changed_count_is_found(power: Power) -> None:
    assert (power.exact_found.hit, power.exact_found.total) == (18, 18)


def test_large_steps_are_found_on_the_right_side(power: Power) -> None:
    group = power.groups["hits"]
    assert group.found[0.30].share >= 0.95
    assert group.found_together[0.30].share >= 0.95
    assert group.wrong_side == 0
    assert group.beside.share <= 0.01
    assert group.smallest() <= 0.30


def test_the_table_says_what_was_found(power: Power) -> None:
    lines = text(power).splitlines()
    assert lines[0].startswith("3 against 3 runs, dealt in 6 ways")
    assert "18 of 18 (100.0 %) found" in lines[2]


def test_designs_of_a_few_runs() -> None:
    assert designs(2) == [(1, 1)]
    assert designs(6) == [(1, 1), (3, 3), (5, 1)]


def test_drawn_runs_keep_what_is_exact_and_move_the_rest() -> None:
    runs = _runs(2)
    made = drawn(runs, 4, RULES, seed=1)
    assert len(made) == 4
    for one in made:
        for source, original in zip(one.sources, runs[0].sources, strict=True):
            values = {f.metric: f.value for f in source.document.figures}
            assert values["ooms"] == original.document.figures[-1].value
    first = [source.document.figures[0].value for source in made[0].sources]
    assert first != [source.document.figures[0].value for source in made[1].sources]


def test_one_run_alone_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert allocmark("dev", "power", "nowhere") == 2
    assert "no file, no folder" in capsys.readouterr().err
