"""The launcher: identity, refusals, exit statuses, and what it leaves alone."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from allocmark.emulator import launcher
from allocmark.machine.emulated import is_emulated
from allocmark.system.compiler import compiler
from allocmark.system.errors import AllocmarkError, UnknownNameError
from allocmark.system.units import GIB, MIB
from tests.support.emulated_child import PRELUDE, emulated, environment, run
from tests.support.emulated_child import launcher as command

pytestmark = pytest.mark.fault


def test_nobody_can_mistake_it_for_hardware() -> None:
    code = """
from allocmark.machine.emulated import is_emulated
import pynvml
pynvml.nvmlInit()
card = pynvml.nvmlDeviceGetHandleByIndex(0)
name = ctypes.create_string_buffer(100)
driver = ctypes.CDLL("libcuda.so.1")
driver.cuInit(0)
driver.cuDeviceGetName(name, 100, 0)
report([is_emulated(), driver.allocmark_emulator_version(), name.value.decode(),
        pynvml.nvmlDeviceGetName(card), pynvml.nvmlSystemGetDriverVersion()])
"""
    name = "Emulated NVIDIA H200"
    assert emulated(code) == [True, 1, name, name, "580.159.04"]


_NVML = """
import ctypes, json, pynvml as n
n.nvmlInit()
card = n.nvmlDeviceGetHandleByIndex(0)
old, new = n.nvmlDeviceGetMemoryInfo(card), n.nvmlDeviceGetMemoryInfo(card, version=n.nvmlMemory_v2)
print(json.dumps([old.total, old.used, old.free, new.total, new.reserved, new.used, new.free]))
"""


@pytest.mark.parametrize("asked", [None, 24 * GIB])
def test_nvml_tells_what_the_driver_keeps_as_an_h200_does(asked: int | None) -> None:
    """Its total is 644,939,776 bytes more than can be used, which are used from the start."""
    reserved, usable = (644939776, 150109880320) if asked is None else (0, asked)
    memory = [] if asked is None else ["--memory", str(asked)]
    words = [sys.executable, "-m", "allocmark.emulator", "--gpu", "h200", *memory, "--"]
    done = subprocess.run(
        [*words, sys.executable, "-c", _NVML],
        env=environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    total = usable + reserved
    assert json.loads(done.stdout) == [total, reserved, usable, total, reserved, 0, usable]


def test_this_process_is_not_emulated() -> None:
    assert not is_emulated()


def test_a_real_driver_is_refused_unless_the_gpu_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launcher, "real_driver", lambda: "/dev/nvidiactl")
    marker = tmp_path / "ran"
    touch = [sys.executable, "-c", f"open({str(marker)!r}, 'w')"]
    with pytest.raises(AllocmarkError, match="real NVIDIA driver .* name it, as in --gpu h200"):
        launcher.emulate(touch)
    assert not marker.exists()
    assert launcher.emulate(touch, gpu="h200") == 0
    assert marker.exists()


def test_absurd_wishes_are_refused_with_a_remedy() -> None:
    with pytest.raises(UnknownNameError, match="unknown GPU profile 'rtx9999': choose from h200"):
        launcher.emulate(["true"], gpu="rtx9999")
    with pytest.raises(AllocmarkError, match="17 devices cannot be emulated: ask for 1 to 16"):
        launcher.emulate(["true"], gpu="h200", devices=17)
    for size in (0, 63 * MIB, 1025 * GIB):
        with pytest.raises(AllocmarkError, match=r"cannot be emulated: ask for 64 MiB to 1024 GiB"):
            launcher.emulate(["true"], gpu="h200", memory_bytes=size)
    with pytest.raises(AllocmarkError, match="cannot run /no/such/program: No such file"):
        launcher.emulate(["/no/such/program"], gpu="h200")


def test_another_libc_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.libc_ver", lambda: ("", ""))
    with pytest.raises(AllocmarkError, match="run it with a Python built for glibc"):
        launcher.emulate(["true"], gpu="h200")


def test_no_shared_memory_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(launcher, "_SHARED_MEMORY", tmp_path / "missing")
    with pytest.raises(AllocmarkError, match=r"cannot be written here: mount a tmpfs"):
        launcher.emulate(["true"], gpu="h200")


def test_full_shared_memory_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the first process that touches a page of the state dies of SIGBUS."""

    def full(*_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(AllocmarkError, match=r"has no room for it \(No space left on device\): "):
        launcher.emulate(["true"], gpu="h200")
    assert not list(Path("/dev/shm").glob(f"*-{os.getpid()}-*"))


def test_a_launch_leaves_nothing_behind() -> None:
    done = run("print(os.environ['ALLOCMARK_EMULATOR_CONFIG']); malloc(MIB)")
    state = next(line for line in done.stdout.splitlines() if line.startswith("state="))
    assert state.startswith("state=/dev/shm/")
    path = Path(state.removeprefix("state="))
    assert not list(path.parent.glob(f"{path.name}*"))


def test_exit_statuses_pass_through() -> None:
    assert run("sys.exit(7)").returncode == 7
    assert run("import signal; os.kill(os.getpid(), signal.SIGKILL)").returncode == 128 + 9


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_an_ended_launcher_ends_its_command_and_clears_up(number: signal.Signals) -> None:
    code = "print(os.environ['ALLOCMARK_EMULATOR_CONFIG'], flush=True); time.sleep(60)"
    code = f"import os, time; {code}"
    with subprocess.Popen(
        [*command(), sys.executable, "-c", code],
        env=environment({}),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        state = next(line for line in lines if line.startswith("state=")).strip()[6:]
        assert Path(state).exists()
        process.send_signal(number)
        process.stdout.read()  # To the end of all that could write.
        killed = number == signal.SIGKILL
        assert process.wait(timeout=30) == (-number if killed else 128 + number)
    assert not list(Path(state).parent.glob(f"{Path(state).name}*"))


def test_what_a_killed_launcher_left_is_swept() -> None:
    with subprocess.Popen(["true"]) as gone:
        gone.wait()
    left = Path(f"/dev/shm/allocmark-emulator-{gone.pid}-left")
    kept = Path(f"/dev/shm/allocmark-emulator-{os.getpid()}-kept")
    left.touch()
    kept.touch()
    try:
        assert launcher.emulate(["true"], gpu="h200") == 0
        assert not left.exists()
        assert kept.exists()
    finally:
        kept.unlink()


@pytest.mark.parametrize("name", ["x" * 230, 'ä:b c"d\\e,f'])
def test_the_cache_may_lie_anywhere(tmp_path: Path, name: str) -> None:
    """The dynamic linker passes over an auditor of a long path, or splits it at a colon."""
    variables = {"XDG_CACHE_HOME": str(tmp_path / name)}
    assert emulated("report(malloc(MIB)[0])", variables=variables) == 0


def test_other_programs_run_as_before() -> None:
    loop = "for i in 1 2 3; do /bin/true || exit 1; done; python3 --version >/dev/null || exit 2"
    plain = subprocess.run(["sh", "-c", loop], check=False).returncode
    done = subprocess.run(
        [*command(), "sh", "-c", loop], env=environment({}), capture_output=True, check=False
    )
    assert done.returncode == plain
    assert done.stderr == b""


def test_every_child_sees_the_same_cards() -> None:
    code = """
import subprocess
held = malloc(100 * MIB)
inner = "import pynvml as n; n.nvmlInit(); card = n.nvmlDeviceGetHandleByIndex(0); "
inner += "print(n.nvmlDeviceGetMemoryInfo(card).used)"
shell = ["sh", "-c", f'"{sys.executable}" -c "{inner}"']
seen = subprocess.run(shell, capture_output=True, text=True).stdout
report([4 * GIB - free_bytes(), int(seen)])
"""
    own, seen = emulated(code)
    assert own == seen


def test_without_the_launcher_there_is_no_device() -> None:
    count = """
count = ctypes.c_int(-1)
report([runtime("cudaGetDeviceCount", ctypes.byref(count)), count.value])
"""
    code = f"""
import subprocess
del os.environ["ALLOCMARK_EMULATOR_CONFIG"]
subprocess.run([sys.executable, "-c", {PRELUDE + count!r}], check=True)
"""
    assert emulated(code) == [100, 0]


def test_a_missing_function_fails_and_says_its_name() -> None:
    done = run('report([runtime("cudaMallocManaged") for _ in range(3)])')
    assert done.stdout == "[801, 801, 801]\n"
    assert done.stderr == (
        "allocmark emulator: cudaMallocManaged is not emulated and fails as not supported: "
        "what needs it needs a GPU (docs/emulator.md)\n"
    )


def test_a_runtime_that_is_not_emulated_is_named_with_the_remedy() -> None:
    """NVIDIA's own runtimes, CUDA 11's among them, first ask the driver for private tables."""
    code = """
driver, table = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
report([driver.cuGetExportTable(ctypes.byref(table), bytes(16)) for _ in range(2)])
"""
    done = run(code)
    assert done.stdout == "[801, 801]\n"
    assert done.stderr.count("use a build for CUDA 12 or 13 that loads libcudart.so.12 or .13") == 1


_CALLER = """
int cuGetExportTable(const void **table, const unsigned char *id);
static const unsigned char id[16];
int ask(void) { const void *table; return cuGetExportTable(&table, id); }
"""


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("libnccl.so.2", "NCCL (libnccl.so.2) is not emulated: run one rank of the job alone ("),
        ("libcufft.so.12", "cuFFT (libcufft.so.12) is not emulated: leave the transform out, or"),
        ("libcusolver.so.11", "cuSOLVER (libcusolver.so.11) is not emulated: solve on the CPU"),
        ("libcusparse.so.12", "cuSPARSE (libcusparse.so.12) is not emulated: use dense tensors"),
        ("libother.so", "libother.so brings a CUDA runtime of its own, or one of another version"),
    ],
)
def test_a_library_that_is_not_emulated_is_named_with_what_to_do_instead(
    tmp_path: Path, name: str, told: str
) -> None:
    """They bring NVIDIA's runtime within them, which asks the driver for private tables."""
    source, library = tmp_path / "caller.c", tmp_path / name
    source.write_text(_CALLER)
    subprocess.run([*compiler(), "-shared", "-fPIC", "-o", library, source], check=True)
    code = f"""
ctypes.CDLL("libcuda.so.1", ctypes.RTLD_GLOBAL)
report(ctypes.CDLL({str(library)!r}).ask())
"""
    done = run(code)
    assert done.stdout == "801\n"
    assert done.stderr.startswith(f"allocmark emulator: {told}"), done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(("limit_gib", "first"), [(80, 0), (40, 2)])
def test_a_lack_of_the_hosts_addresses_is_told_from_one_of_the_devices(
    limit_gib: int, first: int
) -> None:
    code = f"""
import resource
size = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + {limit_gib} * GIB, size + {limit_gib} * GIB))
codes = [malloc(10 * GIB)[0] for _ in range(8)]
report([codes[0], codes[-1], free_bytes() > 60 * GIB])
"""
    done = run(code, memory="141GiB")
    assert done.stdout == f"[{first}, 2, true]\n"
    assert done.stderr == (
        "allocmark emulator: host memory is short, not the device's: this process has no addresses "
        "left for more of it (ulimit -v)\n"
    )


def test_an_emulator_that_came_too_late_or_was_cut_off_is_said() -> None:
    """As where the variables are set in a running Python, or a wrapper cleans the environment."""
    code = """
import subprocess
del os.environ["LD_AUDIT"]
child = "from allocmark.machine.stack import read_stack; read_stack('cuda', 0)"
done = subprocess.run([sys.executable, "-c", child], capture_output=True, text=True)
print(done.stderr)
"""
    assert "Start allocmark emulate last, right before the program" in run(code).stdout


def test_computed_values_warn_once() -> None:
    code = """
pointer = malloc(100)[1]
host = ctypes.create_string_buffer(b"x" * 100)
for _ in range(3):
    runtime("cudaMemcpy", host, ctypes.c_void_p(pointer), ctypes.c_size_t(100), 2)
report(host.raw[:100] == bytes(100))
"""
    done = run(code)
    assert done.stdout == "true\n"
    assert done.stderr.count("computed values are not emulated") == 1
