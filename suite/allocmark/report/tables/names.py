"""What the names mean: every workload and allocator that the figures are of, in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from allocmark.allocators import registry
from allocmark.claims.claim import Judged
from allocmark.claims.text import Text
from allocmark.report.tables.document import Said
from allocmark.store.grid import SUBJECT
from allocmark.store.panel import Panel
from allocmark.store.table import Table, label
from allocmark.system.units import MIB

TITLE = Text("What the names mean", "名称的含义")
WORKLOADS = {
    "uniform": Text(
        "sizes from 512 B to 64 MiB without any pattern, random lifetimes",
        "512 B 到 64 MiB 的大小，毫无规律，寿命随机",
    ),
    "bimodal": Text("many small blocks and a few huge ones", "大量小块和少数极大的块"),
    "ascending": Text(
        "requests that grow, as when batches are sorted by length: nothing that was freed is "
        "large enough for the next one",
        "请求越来越大（如按长度排序的批次）：先前释放的都容不下后一个",
    ),
    "descending": Text(
        "the same sizes in falling order: each fits into what larger ones left",
        "同样的大小，由大到小：每个都放得进较大者留下的空位",
    ),
    "boundary": Text(
        "sizes just below, at and above the thresholds of allocators",
        "恰在分配器各阈值之下、之上和正好相等的大小",
    ),
    "pinned": Text(
        "large blocks that come and go, small ones that stay between them",
        "大块来来去去，小块长留其间",
    ),
    "training": Text(
        "eight steps of training a transformer on sequences of varying length",
        "以不同长度的序列训练 Transformer 八步",
    ),
    "kv-cache": Text(
        "a server's key and value caches, each doubling as it fills",
        "推理服务的键值缓存，填满即翻倍",
    ),
    "recorded-transformer": Text(
        "recorded on a GPU: training a transformer, another sequence length each step",
        "在 GPU 上录制：训练 Transformer，每步序列长度不同",
    ),
    "recorded-convnet": Text(
        "recorded on a GPU: training a convolution net, another resolution each step",
        "在 GPU 上录制：训练卷积网络，每步分辨率不同",
    ),
    "recorded-serving": Text(
        "recorded on a GPU: generation with caches that double as they fill",
        "在 GPU 上录制：文本生成，缓存填满即翻倍",
    ),
}
"""What each workload of the suite stands for."""
_ALLOCATORS = {
    "cuda-malloc": Text("plain cudaMalloc and cudaFree", "直接 cudaMalloc 与 cudaFree"),
    "cuda-malloc-async-0": Text(
        "the driver's pool (cudaMallocAsync), which returns what is free at each synchronization",
        "驱动的池（cudaMallocAsync），每次同步时归还空闲",
    ),
    "cuda-malloc-async-max": Text(
        "the driver's pool (cudaMallocAsync), which returns nothing by itself",
        "驱动的池（cudaMallocAsync），不自动归还",
    ),
    "torch-native": Text("PyTorch as it comes", "PyTorch 默认设置"),
    "tf-greedy": Text("TensorFlow as it comes", "TensorFlow 默认设置"),
    "tf-growth": Text("TensorFlow with set_memory_growth", "TensorFlow，set_memory_growth"),
    "tf-limit": Text(
        "TensorFlow with a memory_limit: one region of that size",
        "TensorFlow，memory_limit：一整块该大小的区域",
    ),
    "tf-async": Text(
        "TensorFlow over the driver's pool (cudaMallocAsync)",
        "TensorFlow，用驱动的池（cudaMallocAsync）",
    ),
    "cupy-pool": Text("CuPy's memory pool", "CuPy 的显存池"),
    "rmm-pool": Text("RMM's pool", "RMM 的 pool"),
    "rmm-arena": Text("RMM's arena", "RMM 的 arena"),
    "rmm-async": Text("RMM over cudaMallocAsync", "RMM，用 cudaMallocAsync"),
}
_TORCH = Text("PyTorch under the setting beside", "PyTorch，采用右列设置")
_NO_SETTINGS = ("TF_CPP_MIN_LOG_LEVEL", "TF_ENABLE_ONEDNN_OPTS")
"""What keeps TensorFlow quiet and alike, and is no setting of its allocator."""
_DEFAULTS = Text("nothing: its defaults", "无：默认设置")
_SET_BY_CALL = {
    "cuda-malloc": Text("nothing: there is nothing to set", "无：没有可设置的"),
    "cuda-malloc-async-0": Text(*["cudaMemPoolAttrReleaseThreshold=0"] * 2),
    "cuda-malloc-async-max": Text(*["cudaMemPoolAttrReleaseThreshold=2^64-1"] * 2),
    "tf-growth": Text(*["set_memory_growth(gpu, True)"] * 2),
    "rmm-pool": Text(*["rmm.mr.PoolMemoryResource"] * 2),
    "rmm-arena": Text(*["rmm.mr.ArenaMemoryResource"] * 2),
    "rmm-async": Text(*["rmm.mr.CudaAsyncMemoryResource"] * 2),
}
"""What no environment variable sets."""
_LIMITED, _POLICY = "tf-limit", "tensorflow_policy"
_NO_LIMIT_NOTED = Text(
    "memory_limit, of which this record does not say how much", "memory_limit，本记录未注明其值"
)
_MEANING, _SET_BY = Text("meaning", "含义"), Text("set by", "设置方式")


def tables(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return a table of workloads and one of allocators, of those that have a figure."""
    rows = panel.rows[panel.rows["value"].notna()]
    present = set(rows["workload"].dropna()) if "workload" in rows else set()
    workloads = [(label(name), said(text)) for name, text in WORKLOADS.items() if name in present]
    allocators = [
        (label(name), said(text), said(_set_by(name, panel)))
        for name in sorted(map(str, rows["subject"].unique()), key=SUBJECT.rank)
        if (text := _meaning(name)) is not None
    ]
    of = Text("workload", "负载"), Text("allocator", "分配器")
    made = (
        ("workloads", Text("Workloads", "负载"), (of[0], _MEANING), workloads),
        ("allocators", Text("Allocators", "分配器"), (of[1], _MEANING, _SET_BY), allocators),
    )
    return [
        Table(
            f"names-{name}",
            said.name(title),
            tuple(said.name(column) for column in columns),
            tuple(lines),
            emulated=panel.emulated,
            whole=True,
        )
        for name, title, columns, lines in made
        if lines
    ]


def _meaning(name: str) -> Text | None:
    if name in _ALLOCATORS:
        return _ALLOCATORS[name]
    known = name.startswith("torch-") and name in registry()
    return _TORCH if known else None


def _set_by(name: str, panel: Panel) -> Text:
    """Return what makes an allocator what it is: variables, a call, or nothing."""
    known = registry().get(name)
    settings = known.environment.items() if known else ()
    told = " ".join(f"{key}={value}" for key, value in settings if key not in _NO_SETTINGS)
    if told:
        return Text(told, told)
    return _limit(panel) if name == _LIMITED else _SET_BY_CALL.get(name, _DEFAULTS)


def _limit(panel: Panel) -> Text:
    """Return TensorFlow's limit in MiB, as the record has it: one experiment sets its own."""
    documents = [panel.store.sources[index].document for index in panel.shown]
    notes = [d.conditions.get("notes") for d in documents if d.subject == _LIMITED]
    settings = [str(note.get("setting", "")) for note in notes if isinstance(note, Mapping)]
    told = [setting.partition(";")[0] for setting in settings if setting.startswith("memory_limit")]
    english, chinese = told[:1], told[:1]
    own = panel.named(_POLICY, "limit_bytes")
    for value in own["value"].dropna().tolist()[:1]:
        there = f"memory_limit={value / MIB:.0f}"
        english, chinese = [*english, f"{there} in {_POLICY}"], [*chinese, f"{_POLICY} 中 {there}"]
    return Text("; ".join(english), "；".join(chinese)) if english else _NO_LIMIT_NOTED
