"""Claims of 3.3: what TensorFlow takes in each of its modes, and how two processes get along."""

from __future__ import annotations

from allocmark.claims.case import Case, Place, Row
from allocmark.claims.claim import Claim, Ruling, Verdict
from allocmark.claims.text import Text

SECTION = "3.3"
PROBE = "tensorflow_policy"
GREEDY, GROWTH, LIMIT = "tf-greedy", "tf-growth", "tf-limit"
CREATED, FIRST, LIVE = "device created", "first tensor", "live peak"
_POINTS = {CREATED: "创建设备时", FIRST: "第一个张量时"}
_BFC = (LIMIT, GROWTH, GREEDY)
"""Subjects whose allocator is BFC."""
METERS = ("nvml_process", "nvml_device", "mem_get_info")
_NEARLY_ALL = 0.9
_LITTLE = 0.1
_HALF = 0.5


def metered(case: Case, metric: str, **where: Place) -> Row:
    """Return the row of the best meter that read it."""
    for meter in METERS:
        if rows := case.rows(PROBE, metric, axis_meter=meter, **where):
            return rows[0]
    raise case.missing(PROBE, metric, **where)


def share_taken(case: Case, name: str, point: str, subject: str = GREEDY) -> float:
    """Take the share of the card that is held at a point as evidence."""
    return case.show(
        name,
        Text(f"share of the card held: {point}", f"占显卡的比例：{_POINTS[point]}"),
        case.one(PROBE, "taken_share", subject=subject, point=point),
    )


def _greedy(case: Case) -> Verdict:
    share = share_taken(case, "share", FIRST)
    case.show(
        "held",
        Text("held then", "此时占用"),
        metered(case, "held_bytes", subject=GREEDY, point=FIRST),
    )
    return case.verdict(
        Ruling.HOLDS if share >= _NEARLY_ALL else Ruling.IN_PART if share > _HALF else Ruling.FAILS,
        Text(
            "{held}, {share} of the card, for one tensor of 1 MiB.",
            "为一个 1 MiB 的张量占用 {held}，即显卡的 {share}。",
        ),
        Text(
            "BFC asks the driver once for what is free, "
            "less a reserve, and cuts tensors out of it.",
            "BFC 一次向驱动要走几乎所有空闲显存（留少量余量），再从中切分张量。",
        ),
    )


def _greedy_when(case: Case) -> Verdict:
    early = share_taken(case, "created", CREATED)
    first = share_taken(case, "first", FIRST)
    late = Ruling.IN_PART if first >= _NEARLY_ALL else Ruling.FAILS
    return case.verdict(
        Ruling.HOLDS if early >= _NEARLY_ALL else late,
        Text(
            "{created} of the card is held when the device is created, {first} with the first "
            "tensor: import and device alone take no more than the context.",
            "创建设备时占显卡的 {created}，第一个张量时占 {first}：仅导入和创建设备只占上下文。",
        ),
        Text(
            "The region is asked for with the first allocation.",
            "这块区域在第一次分配时才申请。",
        ),
    )


def _greedy_gpus(case: Case) -> Verdict:
    place = {"subject": GREEDY, "visible": "all", "point": "first tensor on GPU 0"}
    shares = case.some("several_gpus", "mode_share", **place)
    least = case.work_out(
        "least",
        Text("share of the GPU least taken, a tensor on the first", "占用最少的 GPU 的比例"),
        "smallest",
        shares,
        "share",
    )
    case.work_out("gpus", Text("GPUs", "GPU 数"), "count", shares, "count")
    what = Text("share of the GPU most taken", "占用最多的 GPU 的比例")
    most = case.work_out("most", what, "largest", shares, "share")
    if least >= _NEARLY_ALL:
        ruling = Ruling.HOLDS
    else:
        ruling = Ruling.IN_PART if most >= _NEARLY_ALL else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "A tensor on the first of {gpus} GPUs: {most} "
            "of the most taken GPU is held, {least} of "
            "the least taken.",
            "在 {gpus} 块 GPU 的第一块上放张量：占用最多的为 {most}，最少的为 {least}。",
        ),
        Text(
            "Each device has an allocator of its own, which takes its region when it is used.",
            "每块设备有自己的分配器，被使用时才取走其区域。",
        ),
    )


def _bfc_row(case: Case, metric: str) -> Row:
    """Return what the crafted sequence says of BFC, in whichever mode it was run."""
    for subject in _BFC:
        if rows := case.rows("placement", metric, subject=subject):
            return rows[0]
    raise case.missing("placement", metric, subject=LIMIT)


def _bfc(case: Case) -> Verdict:
    best = case.show(
        "best_fit",
        Text("took the smallest hole that fits (1: yes)", "取用最小的合适空位（1 为是）"),
        _bfc_row(case, "best_fit"),
    )
    merges = case.show(
        "merges",
        Text("freed neighbours served one request (1: yes)", "相邻空闲合并满足一次请求（1 为是）"),
        _bfc_row(case, "merges_at_free"),
    )
    note = Text("", "")
    if rows := case.rows("placement", "best_fit", subject="torch-native"):
        case.show("torch", Text("the same of PyTorch (1: yes)", "PyTorch 同样（1 为是）"), rows[0])
        if rows[0].value:
            note = Text(" PyTorch's allocator does the same.", "PyTorch 的分配器同样如此。")
    holds = [best > 0, merges > 0]
    return case.verdict(
        Ruling.HOLDS if all(holds) else Ruling.IN_PART if any(holds) else Ruling.FAILS,
        Text(
            "Seen in the addresses of a crafted sequence of requests." + note.en,
            "由专门构造的请求序列返回的地址得知。" + note.zh,
        ),
        Text(
            "Free chunks are sorted by size, and each knows its neighbours.",
            "空闲块按大小排序，并记录左右相邻块。",
        ),
    )


def _bfc_when(case: Case) -> Verdict:
    merges = case.show(
        "merges",
        Text("merged with plenty left to take (1: yes)", "空间充足时即已合并（1 为是）"),
        _bfc_row(case, "merges_at_free"),
    )
    return case.verdict(
        Ruling.FAILS if merges else Ruling.HOLDS,
        Text(
            "Neighbours were one right after the free, while a larger hole was there to be used.",
            "释放后相邻块立即合并，而当时另有更大的空位可用。",
        ),
        Text(
            "A chunk is merged with its free neighbours "
            "when it is freed, not when memory is short.",
            "块在释放时就与空闲邻块合并，而不是等到放不下时。",
        ),
    )


def _growth(case: Case) -> Verdict:
    live = case.one(PROBE, "live_bytes", subject=GROWTH)
    beyond_row = case.one(PROBE, "beyond_need_bytes", subject=GROWTH)
    beyond = case.show("beyond", Text("most held beyond need", "超出需要的最大占用"), beyond_row)
    needed = case.show("live", Text("needed in the end", "最终需要"), live)
    case.show(
        "steps",
        Text("requests to the driver", "向驱动申请的次数"),
        case.one(PROBE, "steps", subject=GROWTH),
    )
    case.show(
        "largest",
        Text("largest of them", "其中最大的一次"),
        case.one(PROBE, "largest_step_bytes", subject=GROWTH),
    )
    if beyond <= _LITTLE * needed:
        ruling = Ruling.HOLDS
    else:
        ruling = Ruling.IN_PART if beyond < needed else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "In {steps} steps, the largest {largest}: up to {beyond} more than needed on the way "
            "to {live}.",
            "分 {steps} 次申请，最大一次 {largest}：在增长到 {live} 的途中最多多占 {beyond}。",
        ),
        Text(
            "Regions double in size as they are taken, and none is returned.",
            "新区域成倍增大，且不归还。",
        ),
    )


def _limit(case: Case) -> Verdict:
    limit = case.show(
        "limit",
        Text("memory_limit that was set", "设置的 memory_limit"),
        case.one(PROBE, "limit_bytes", subject=LIMIT),
    )
    held = case.show(
        "held",
        Text("held at the live peak", "活动峰值时占用"),
        metered(case, "held_bytes", subject=LIMIT, point=LIVE),
    )
    rest = case.show(
        "rest",
        Text("beyond the limit without the context", "除上下文外超出限额的部分"),
        metered(case, "above_limit_bytes", subject=LIMIT, why="rest"),
    )
    if held <= limit:
        ruling = Ruling.HOLDS
    else:
        ruling = Ruling.IN_PART if rest <= _LITTLE * limit else Ruling.FAILS
    return case.verdict(
        ruling,
        Text(
            "Tensors stay within {limit}, but the process "
            "holds {held}: the context is not counted.",
            "张量不超过 {limit}，但进程占用 {held}：上下文不计入限额。",
        ),
        Text(
            "The limit is the size of BFC's region. Context, modules and libraries lie outside it, "
            "and the whole region is taken at once.",
            "限额是 BFC 区域的大小；上下文、模块和库都在其外，而且整个区域一次取走。",
        ),
    )


CLAIMS = (
    Claim(
        "tf-greedy",
        SECTION,
        Text(
            "By default TensorFlow takes nearly all memory that it can see.",
            "TensorFlow 默认占满几乎所有可见显存。",
        ),
        (PROBE,),
        _greedy,
    ),
    Claim(
        "tf-greedy-when",
        SECTION,
        Text(
            "TensorFlow takes nearly all memory as soon as it starts.",
            "TensorFlow 一启动就占满几乎所有显存。",
        ),
        (PROBE,),
        _greedy_when,
    ),
    Claim(
        "tf-greedy-gpus",
        SECTION,
        Text(
            "TensorFlow takes nearly all memory of all visible GPUs.",
            "TensorFlow 占满所有可见 GPU 的几乎全部显存。",
        ),
        ("several_gpus",),
        _greedy_gpus,
    ),
    Claim(
        "tf-bfc",
        SECTION,
        Text(
            "TensorFlow's BFC allocator finds the best fit and merges neighbours.",
            "TensorFlow 的 BFC 分配器寻找最合适的空位并合并相邻块。",
        ),
        ("placement",),
        _bfc,
    ),
    Claim(
        "tf-bfc-when",
        SECTION,
        Text(
            "BFC merges free chunks when nothing fits.",
            "BFC 在放不下时才合并碎片。",
        ),
        ("placement",),
        _bfc_when,
    ),
    Claim(
        "tf-growth",
        SECTION,
        Text(
            "With memory growth TensorFlow takes memory as needed.",
            "TensorFlow 开启显存增长后按需分配。",
        ),
        (PROBE,),
        _growth,
    ),
    Claim(
        "tf-limit",
        SECTION,
        Text(
            "memory_limit=4096 limits TensorFlow to 4 GB.",
            "memory_limit=4096 把 TensorFlow 限制在 4 GB。",
        ),
        (PROBE,),
        _limit,
        on_context=True,
    ),
)
