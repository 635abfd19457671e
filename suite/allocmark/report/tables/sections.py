"""What the source document's sections 3.1 to 3.3 say, row by row, with the figures to show."""

from __future__ import annotations

from collections.abc import Sequence

from allocmark.claims.claim import Judged
from allocmark.claims.text import Text
from allocmark.report.tables.document import Row, Said, Stated, stated_table
from allocmark.store.panel import Panel
from allocmark.store.table import Table

_STATEMENT = Text("statement", "说法")


def _rows(*cells: tuple[Text, Text, str, str]) -> list[Row]:
    return [(first, [Stated(words, claim, name)]) for first, words, claim, name in cells]


CONTEXT = _rows(
    (
        Text("creation", "创建"),
        Text(
            "any CUDA use first creates a context, which takes memory",
            "使用 CUDA 先创建上下文，占用显存",
        ),
        "ctx-exists",
        "context",
    ),
    (
        Text("trigger", "触发"),
        Text("any CUDA call creates it", "任何 CUDA 调用都会创建"),
        "ctx-trigger",
        "creating",
    ),
    (
        Text("contents", "内容"),
        Text("memory management, streams, modules", "内存管理、流调度、模块加载"),
        "ctx-contents",
        "modules",
    ),
    (
        Text("size", "大小"),
        Text("large enough to matter", "不可忽视"),
        "ctx-ignored",
        "bare",
    ),
    (
        Text("cause", "原因"),
        Text("tables and metadata for allocations", "分配所需的表和元数据"),
        "ctx-cause",
        "bookkeeping",
    ),
)
TRAITS: list[Row] = [
    (
        Text("large blocks ahead", "预分配大块"),
        [
            Stated(
                Text(
                    "the first request takes a large block, from 2 MB", "首次直接要一大块，2MB 起步"
                ),
                "pt-big-block",
                "small_taken",
            ),
            Stated(Text("fewer CUDA calls", "减少 CUDA 调用"), "pt-fewer-calls", "share"),
            Stated(Text("may waste memory", "可能浪费显存"), "pt-big-block-waste", "median"),
        ],
    ),
    (
        Text("pools by stream", "流式分配"),
        [
            Stated(
                Text("each stream has its own cache pool", "不同流使用独立缓存池"),
                "pt-stream-pools",
                "growth",
            ),
            Stated(Text("no lock contention", "避免锁竞争"), "pt-no-lock", "speedup"),
        ],
    ),
    (
        Text("late release", "延迟释放"),
        [
            Stated(
                Text("freed memory stays in the cache", "释放后放入缓存池"),
                "pt-cache",
                "reserved",
            ),
            Stated(Text("later requests are faster", "加速后续分配"), "pt-late-free", "times"),
            Stated(Text("fragmentation gets worse", "碎片化加剧"), "pt-late-free-frag", "worse"),
        ],
    ),
]
"""Feature, explanation, influence; an influence of two halves is two cells."""
CODE = _rows(
    (
        Text("memory_summary()", "memory_summary()"),
        Text("cached, used, fragments", "缓存、已用、碎片"),
        "pt-summary",
        "pinned",
    ),
    (
        Text("empty_cache()", "empty_cache()"),
        Text("back to PyTorch's own pool only", "只还给 PyTorch 自己的池"),
        "pt-empty-cache",
        "returned",
    ),
    (
        Text("memory_allocated()", "memory_allocated()"),
        Text("what is used", "已用"),
        "pt-counters",
        "wrong",
    ),
    (
        Text("memory_reserved()", "memory_reserved()"),
        Text("what is cached", "已缓存"),
        "pt-counters-cached",
        "cached",
    ),
    (
        Text("nvidia-smi", "nvidia-smi"),
        Text("may not change after empty_cache()", "empty_cache() 后可能不变"),
        "pt-empty-cache-smi",
        "half",
    ),
)
MODES = _rows(
    (
        Text("greedy (default)", "贪心（默认）"),
        Text("takes nearly all memory", "占满几乎所有显存"),
        "tf-greedy",
        "share",
    ),
    (
        Text("greedy: when", "贪心：时机"),
        Text("as soon as it starts", "一启动就占"),
        "tf-greedy-when",
        "created",
    ),
    (
        Text("greedy: GPUs", "贪心：GPU"),
        Text("on all visible GPUs", "所有可见 GPU"),
        "tf-greedy-gpus",
        "least",
    ),
    (
        Text("BFC", "BFC"),
        Text("finds the best fit and merges neighbours", "找最合适的空位，合并相邻"),
        "tf-bfc",
        "best_fit",
    ),
    (
        Text("BFC: when", "BFC：时机"),
        Text("merges when nothing fits", "放不下时才合并"),
        "tf-bfc-when",
        "merges",
    ),
    (
        Text("growth", "显存增长"),
        Text("takes memory as needed", "按需分配"),
        "tf-growth",
        "beyond",
    ),
    (
        Text("memory_limit=4096", "memory_limit=4096"),
        Text("limits it to 4 GB", "限制在 4GB"),
        "tf-limit",
        "held",
    ),
    (
        Text("which to use", "选择"),
        Text("growth", "显存增长"),
        "growth-best",
        "worse",
    ),
    (
        Text("two models, greedy", "两个模型，贪心"),
        Text("the other one gets nothing", "另一个无显存可用"),
        "two-models",
        "got",
    ),
    (
        Text("two models, growth", "两个模型，增长"),
        Text("both get what they need", "各取所需"),
        "two-models-growth",
        "second_live",
    ),
)
COMPARISON: list[Row] = [
    (
        Text("default behaviour", "默认行为"),
        [
            Stated(
                Text("on demand, reuses its cache", "按需分配，缓存复用"), "cmp-default-pt", "over"
            ),
            Stated(Text("takes all, greedy", "全量分配，贪心模式"), "cmp-default-tf", "share"),
        ],
    ),
    (
        Text("fragmentation", "碎片处理"),
        [
            Stated(Text("relies on its cache, more", "依赖缓存池，碎片较多"), "cmp-frag", "torch"),
            Stated(Text("BFC merges, less", "BFC 合并，碎片较少"), "cmp-frag", "tf"),
        ],
    ),
    (
        Text("several processes", "多进程支持"),
        [
            Stated(Text("an allocator for each", "每个进程独立分配器"), "cmp-process-pt", "shared"),
            Stated(Text("shares between them", "支持进程间共享"), "cmp-process-tf", "shared"),
        ],
    ),
    (
        Text("giving memory back", "显存回收"),
        [
            Stated(Text("late, by hand", "延迟回收，需手动 empty_cache"), "cmp-reclaim-pt", "hand"),
            Stated(Text("by itself, slowly", "自动回收，但较慢"), "cmp-reclaim-tf", "later"),
        ],
    ),
]
_ABOUT = Text(
    "What the source document says, in our words, each followed by its figure and verdict. "
    "≈ or †: not settled.",
    "源文档的说法（以我们的话转述），其后为数值与结论。≈ 或 †：尚未稳定。",
)


def context(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return 3.1: the context, statement by statement."""
    columns = (Text("context", "上下文"), _STATEMENT)
    title = Text("What is said of the context", "关于上下文的说法")
    return [_made(judged, said, "context", title, columns, CONTEXT, panel.emulated)]


def torch(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return 3.2: the three traits, and the counters of the code example."""
    columns = (
        Text("feature", "特点"),
        Text("explanation", "说明"),
        Text("influence: gain", "影响：好处"),
        Text("influence: price", "影响：代价"),
    )
    traits = Text("Three traits of PyTorch's strategy", "PyTorch 分配策略的三大特点")
    code = Text("What the code example's calls really show", "示例代码各调用实际显示什么")
    return [
        _made(judged, said, "traits", traits, columns, TRAITS, panel.emulated),
        _made(judged, said, "code", code, (Text("call", "调用"), _STATEMENT), CODE, panel.emulated),
    ]


def tensorflow(judged: Sequence[Judged], said: Said, panel: Panel) -> list[Table]:
    """Return 3.3: the modes, and TensorFlow against PyTorch."""
    columns = (Text("mode", "模式"), _STATEMENT)
    modes = Text("TensorFlow's modes", "TensorFlow 的各种模式")
    against = Text("TensorFlow against PyTorch", "TensorFlow 与 PyTorch 的分配差异")
    sides = (Text("item", "对比项"), Text("PyTorch", "PyTorch"), Text("TensorFlow", "TensorFlow"))
    return [
        _made(judged, said, "modes", modes, columns, MODES, panel.emulated),
        _made(judged, said, "comparison", against, sides, COMPARISON, panel.emulated),
    ]


def _made(
    judged: Sequence[Judged],
    said: Said,
    name: str,
    title: Text,
    columns: Sequence[Text],
    rows: Sequence[Row],
    emulated: bool,
) -> Table:
    return stated_table(
        judged,
        said,
        name=name,
        title=title,
        columns=columns,
        rows=rows,
        about=_ABOUT,
        emulated=emulated,
    )
