"""``asv run`` on a machine it has never seen, and what can be done with what it saves."""

from __future__ import annotations

import json
from typing import Any

from allocmark.schema import documents
from allocmark.system.errors import EXIT_BAD_INPUT
from tests.support.clone import BENCHMARKS, Clone


def result(clone: Clone) -> dict[str, Any]:
    (content,) = clone.asv_files().values()
    data: dict[str, Any] = json.loads(content)
    return data


def test_a_run_asks_nothing_and_saves_under_the_stack(measured: Clone) -> None:
    (name,) = measured.asv_files()
    params = result(measured)["params"]
    for value in (params["driver"], params["torch"], params["cuda"], f"py{params['python']}"):
        assert value in name
    assert params["machine"] == "emulated-nvidia-h200"
    assert params["profile"] == "quick"
    assert params["gpu_memory"] == "8 GiB"
    assert params["cpu"]


def test_the_record_is_left_alone(measured: Clone) -> None:
    assert measured.asv_files() and measured.documents()
    assert not measured.git("status", "--porcelain")


def test_the_home_folder_is_left_alone(measured: Clone) -> None:
    assert not list((measured.path / "build" / "home").rglob("*asv*"))


def test_cells_are_the_figures_of_the_documents(measured: Clone) -> None:
    held = result(measured)["results"]["streams.PrivatePools.track_held"][0]
    (document,) = [
        documents.read(path)
        for path in measured.documents()
        if path.name == "streams.torch-native.json.gz"
    ]
    values = [f.value for f in document.figures if f.metric == "held_bytes"]
    assert set(values) <= set(held)
    assert any(values)


def test_exact_cells_without_a_figure_are_empty_not_failed(measured: Clone) -> None:
    shown = result(measured)["results"]["pressure.Counters.track_shown"][0]
    assert None not in shown


def test_documents_are_complete(measured: Clone) -> None:
    found = [documents.read(path) for path in measured.documents()]
    assert {d.probe for d in found} == {"pressure", "streams"}
    assert len({d.run for d in found}) == 1
    for document in found:
        assert document.emulated
        assert document.profile == "quick"
        assert {"before", "after"} <= set(document.conditions)
        assert all(f.value is not None or f.reason for f in document.figures)


def test_show_and_publish_need_no_gpu(measured: Clone) -> None:
    shown = measured.run("asv", "show", *measured.of_emulated(), "HEAD", emulated=False)
    assert shown.returncode == 0, shown.stderr
    assert "streams.PrivatePools.track_held" in shown.stdout
    published = measured.run("asv", "publish", *measured.of_emulated(), emulated=False)
    assert published.returncode == 0, published.stderr
    assert "Skipping" not in published.stdout + published.stderr
    index = json.loads((measured.path / "build/asv-site/index.json").read_text())
    assert set(index["params"]["machine"]) == {"emulated-nvidia-h200"}
    assert list((measured.path / "build/asv-site/graphs").rglob("streams.*.json"))


def test_another_driver_starts_a_file_of_its_own(measured: Clone) -> None:
    before = measured.asv_files()
    records = {path: path.read_bytes() for path in measured.documents()}
    profile = measured.path / "suite/allocmark/emulator/profiles/h200.json"
    facts = profile.read_text()
    driver = json.loads(facts)["driver_version"]
    profile.write_text(facts.replace(driver, "999.1.2"))
    done = measured.run("asv", "run", "--quick", "--bench", "PrivatePools")
    profile.write_text(facts)
    assert done.returncode == 0, done.stderr
    after = measured.asv_files()
    assert len(after) == len(before) + 1
    assert all(after[name] == content for name, content in before.items())
    assert all(path.read_bytes() == content for path, content in records.items())


def test_two_commits_can_be_compared(measured: Clone) -> None:
    first = measured.git("rev-parse", "--short=8", "HEAD")
    second = measured.commit("second")
    done = measured.run("asv", "run", "--quick", "--bench", "PrivatePools")
    assert done.returncode == 0, done.stderr
    compared = measured.run(
        "asv", "compare", *measured.of_emulated(), first, second, emulated=False
    )
    assert compared.returncode == 0, compared.stderr
    line = next(x for x in compared.stdout.splitlines() if "'mempool', 'live'" in x)
    assert " 1.00 " in line


def test_a_result_file_of_another_stack_is_refused(measured: Clone) -> None:
    name, content = sorted(measured.asv_files().items())[0]
    measured.git("checkout", "-q", "-B", "main", name.partition("-")[0])
    (file,) = measured.results.glob(f"*/{name}")
    data = json.loads(content)
    data["params"]["driver"] = "1.2.3"
    file.write_text(json.dumps(data))
    altered = file.read_bytes()
    done = measured.run("asv", "run", "--quick", "--bench", BENCHMARKS)
    assert done.returncode == 2
    assert "driver '1.2.3' is now" in done.stderr
    assert "Traceback" not in done.stderr
    assert file.read_bytes() == altered


def test_without_a_gpu_one_sentence_names_the_emulator(clone: Clone) -> None:
    done = clone.run("asv", "run", "--quick", emulated=False)
    assert done.returncode == 2
    assert "allocmark emulate" in done.stderr
    assert "Traceback" not in done.stderr
    assert not clone.asv_files()


def test_a_range_of_commits_is_refused(clone: Clone) -> None:
    done = clone.run("asv", "run", "main^!")
    assert done.returncode == 1
    assert "without a range" in done.stdout + done.stderr


def test_a_benchmark_that_does_not_exist_is_bad_input_beside_one_that_does(clone: Clone) -> None:
    done = clone.run("asv", "run", "--quick", "--bench", "PrivatePools", "--bench", "nosuch")
    assert done.returncode == EXIT_BAD_INPUT
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("allocmark: unknown benchmark 'nosuch': choose from context.Processes.")
