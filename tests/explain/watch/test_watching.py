"""A watched process: its file, whose it is, when it goes, and that CUDA is left alone."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import allocmark
from allocmark.explain.watch import place

_SUITE = Path(allocmark.__file__).parents[1]

TORCH = """
__version__ = "2.99"
class _Properties:
    uuid = "aa"
class _Cuda:
    started = True
    live = 4
    def is_initialized(self): return self.started
    def device_count(self): return 3
    def get_allocator_backend(self): return "native"
    def get_device_properties(self, device): return _Properties()
    def memory_stats_as_nested_dict(self, device):
        assert self.started and device == 1
        counted = {
            "allocated_bytes": self.live, "active_bytes": 5,
            "reserved_bytes": 16, "inactive_split_bytes": 3,
        }
        nested = {name: {"all": {"current": value}} for name, value in counted.items()}
        return nested | {"num_alloc_retries": 2, "num_ooms": 1}
class _C:
    @staticmethod
    def _cuda_hasPrimaryContext(device): return device == 1
cuda = _Cuda()
"""
"""A stand-in of which only the second device may be asked: there is no context on the others."""

_FOUND = {
    "framework": "torch",
    "version": "2.99",
    "device": 1,
    "uuid": "GPU-aa",
    "backend": "native",
    "live_bytes": 4,
    "active_bytes": 5,
    "reserved_bytes": 16,
    "inactive_split_bytes": 3,
    "retries": 2,
    "ooms": 1,
    "most_cached_share": 0.75,
}
_TELL = """
import json, os, sys
def tell():
    path = os.environ["XDG_RUNTIME_DIR"] + f"/allocmark/{os.getpid()}.json"
    print(open(path).read() if os.path.exists(path) else "null", flush=True)
"""


def run(tmp_path: Path, code: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a program that may call `tell`, over the stand-in for torch."""
    (tmp_path / "torch.py").write_text(TORCH)
    return subprocess.run(
        [sys.executable, "-c", _TELL + code],
        env=environment(tmp_path, **more),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    path = os.pathsep.join((str(tmp_path), str(_SUITE)))
    return {**os.environ, "PYTHONPATH": path, "XDG_RUNTIME_DIR": str(tmp_path), **more}


def told(ended: subprocess.CompletedProcess[str]) -> list[Any]:
    assert ended.returncode == 0, ended.stderr
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_a_process_tells_its_counters_and_takes_its_file_with_it(tmp_path: Path) -> None:
    code = "import torch, allocmark; allocmark.watch(); allocmark.watch(); tell()"
    (found,) = told(run(tmp_path, code))
    assert found["devices"] == [_FOUND]
    assert 0 < found["written_s"] <= time.monotonic()
    assert list((tmp_path / "allocmark").iterdir()) == []
    assert stat.S_IMODE((tmp_path / "allocmark").stat().st_mode) == 0o700


def test_it_is_written_again_and_keeps_the_largest_share(tmp_path: Path) -> None:
    code = """
import time, torch, allocmark
allocmark.watch(); tell()
torch.cuda.live = 5
path = os.environ["XDG_RUNTIME_DIR"] + f"/allocmark/{os.getpid()}.json"
end = time.monotonic() + 30
while json.load(open(path))["devices"][0]["live_bytes"] != 5 and time.monotonic() < end:
    time.sleep(0.05)
tell()
"""
    first, second = told(run(tmp_path, code))
    assert second["written_s"] > first["written_s"]
    assert second["devices"] == [{**_FOUND, "live_bytes": 5}]


@pytest.mark.parametrize("before", ["", "import torch; torch.cuda.started = False; "])
def test_neither_a_framework_nor_cuda_is_started(tmp_path: Path, before: str) -> None:
    ended = run(tmp_path, f"{before}import allocmark; allocmark.watch(); tell()")
    assert [one["devices"] for one in told(ended)] == [[]]


def test_only_the_standard_library_is_loaded(tmp_path: Path) -> None:
    code = """
import allocmark; allocmark.watch()
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules})))
"""
    (names,) = told(run(tmp_path, code))
    assert not {"torch", "tensorflow", "numpy", "pandas", "pynvml", "typer"} & set(names)


@pytest.mark.parametrize("name", ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"])
def test_what_torch_does_not_count_is_not_told(tmp_path: Path, name: str) -> None:
    code = "import torch, allocmark; allocmark.watch(); tell()"
    setting = {name: "max_split_size_mb:64, expandable_segments: True"}
    (found,) = told(run(tmp_path, code, **setting))
    assert found["devices"] == [{**_FOUND, "inactive_split_bytes": None}]


TENSORFLOW = """
import sys, types
class Logical:
    def __init__(self, name): self.name = name
class Context:
    _initialized = True
    def list_logical_devices(self, kind):
        assert self._initialized
        return [Logical("/device:GPU:0"), Logical("/device:GPU:1")]
    def get_memory_info(self, name): return {"current": 64 + int(name[-1]), "peak": 99}
context = Context()
eager = types.ModuleType("tensorflow.python.eager.context")
eager.context_safe = lambda: context
sys.modules[eager.__name__] = eager
import allocmark
"""


def test_tensorflow_tells_what_is_live_once_it_has_begun(tmp_path: Path) -> None:
    (found,) = told(run(tmp_path, f"{TENSORFLOW}allocmark.watch(); tell()"))
    assert [(one["device"], one["live_bytes"]) for one in found["devices"]] == [(0, 64), (1, 65)]
    code = f"{TENSORFLOW}context._initialized = False; allocmark.watch(); tell()"
    (found,) = told(run(tmp_path, code))
    assert found["devices"] == []


def test_a_forked_child_leaves_its_parents_file_alone_and_may_ask_for_its_own(
    tmp_path: Path,
) -> None:
    code = """
import torch, allocmark
allocmark.watch()
if (pid := os.fork()) == 0:
    tell()
    allocmark.watch()
    tell()
    sys.exit()
os.waitpid(pid, 0)
tell()
"""
    nothing, child, parent = told(run(tmp_path, code))
    assert nothing is None
    assert child["pid"] != parent["pid"]
    assert child["devices"] == parent["devices"] == [_FOUND]
    assert list((tmp_path / "allocmark").iterdir()) == []


def test_counters_that_fail_never_reach_the_program(tmp_path: Path) -> None:
    code = "import torch, allocmark; del torch.cuda; allocmark.watch(); tell()"
    (found,) = told(run(tmp_path, code))
    assert found["devices"] == []


def test_what_a_killed_process_left_is_swept_away(tmp_path: Path) -> None:
    ended = run(
        tmp_path, f"import allocmark; allocmark.watch(); os.kill(os.getpid(), {signal.SIGKILL:d})"
    )
    assert ended.returncode == -signal.SIGKILL
    assert len(list((tmp_path / "allocmark").iterdir())) == 1
    told(run(tmp_path, "import allocmark; allocmark.watch()"))
    assert list((tmp_path / "allocmark").iterdir()) == []


@pytest.mark.parametrize("how", ["link", "open", "file"])
def test_a_folder_that_others_could_write_to_is_not_used(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "allocmark"
    if how == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    elif how == "open":
        folder.mkdir()
        folder.chmod(0o777)
    else:
        folder.write_text("")
    monkeypatch.setattr(place, "folders", lambda: [str(folder)])
    with pytest.raises(OSError, match="alone|no folder"):
        place.make_folder()


def test_where_nothing_can_be_written_the_program_is_warned_and_goes_on(tmp_path: Path) -> None:
    code = """
import allocmark
from allocmark.explain.watch import place
place.folders = lambda: ["/proc/allocmark"]
allocmark.watch()
print(1)
"""
    ended = run(tmp_path, code)
    assert told(ended) == [1]
    assert "allocmark cannot watch this process" in ended.stderr


def test_the_hook_of_record_loads_it_where_allocmark_is_not_installed(tmp_path: Path) -> None:
    hook = _SUITE / "allocmark" / "hook" / "inside"
    code = f"""
sys.path = [entry for entry in sys.path if entry != {str(_SUITE)!r}]
sys.path.insert(0, {str(hook)!r})
import torch, allocmark_record_hook
allocmark_record_hook._tell_counters()
tell()
print(json.dumps("allocmark" in sys.modules))
"""
    found, imported = told(run(tmp_path, code))
    assert (found["devices"], imported) == ([_FOUND], False)
