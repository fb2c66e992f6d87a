"""`latencytrace gpu`: the GPUs as they are now, live in a terminal."""

from typing import Annotated

import typer
from rich.console import Console, RenderableType
from rich.text import Text

from latencytrace.cli.pictures.fitted_table import FittedTable, bar
from latencytrace.cli.pictures.gpu_stages import stages_table
from latencytrace.cli.pictures.terminal import say_document, screen, watch
from latencytrace.cli.processes import options
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.errors import ServiceUnreachableError
from latencytrace.model.texts.units import UNKNOWN, duration, share
from latencytrace.service.answers.gpu_documents import GpuDocument, GpusDocument

EVERY_S = 1.0
STALE_NS = 5_000_000_000
BAR_CELLS = 12
GIGABYTE = 1e9
NOTHING = (
    "No GPU is read. On a machine with NVIDIA's driver: pip install 'latencytrace[gpu]', and "
    "trace a program there (`latencytrace run -- COMMAND`); `latencytrace doctor` says why not."
)


def gpu(
    *,
    once: Annotated[bool, typer.Option("--once", help="Print it once, as when piped.")] = False,
    as_json: options.AsJson = False,
    url: options.Url = None,
) -> None:
    """Show each GPU's use of memory bandwidth and arithmetic, and what held its work up.

    Example: latencytrace gpu --once
    """
    try:
        source = reading.service(url)
    except ServiceUnreachableError as error:
        raise ServiceUnreachableError(f"{error}; GPUs are known only while it runs") from None
    if as_json:
        say_document(reading.gpus(source))
        return
    console = screen()
    if once:
        page(console, *picture(reading.gpus(source), console))
        return
    watch(lambda: picture(reading.gpus(source), console), console, EVERY_S)


def picture(document: GpusDocument, console: Console) -> list[RenderableType]:
    """Every GPU, and every kind of work on them."""
    if not document["gpus"] and not document["stages"]:
        return [Text(NOTHING)]
    parts: list[RenderableType] = []
    if document["gpus"]:
        parts += [_gpus(document["gpus"], console), *_remarks(document["gpus"]), ""]
    return [*parts, *stages_table(document["stages"])]


def _gpus(gpus: list[GpuDocument], console: Console) -> RenderableType:
    with_bars = console.color_system is not None
    drawn = FittedTable(
        "GPU", "name", "bandwidth", *([""] if with_bars else []), "by", "tensor", "SM", "memory",
        "power", "°C", "SM clock", left=("name", "", "by"), name="name",
        leave_out=("", "SM clock", "by", "°C", "SM", "power"),
    )  # fmt: skip
    for one in gpus:
        bandwidth = one["bandwidth"]
        filled = bar(bandwidth["utilization_ratio"], BAR_CELLS) if bandwidth else ""
        drawn.add_row(
            str(one["index"]),
            one["name"] + ("" if one["parent_uuid"] is None else " *"),
            _bandwidth(one),
            *([Text(filled, "yellow")] if with_bars else []),
            bandwidth["method"] if bandwidth else "",
            _percent(one["pipes"].get("tensor_any")),
            _percent(one["sm_active_ratio"]),
            _memory(one),
            _in(one["power_watts"], "W"),
            _in(one["temperatures_celsius"].get("gpu"), ""),
            _in(_scaled(one["clocks_hertz"].get("sm"), 1e6), "MHz"),
        )
    return drawn


def _remarks(gpus: list[GpuDocument]) -> list[RenderableType]:
    lines = []
    for one in gpus:
        of = f"GPU {one['index']}"
        held = [event for event in one["clock_events"] if event != "idle"]
        if held:
            lines.append(f"{of}: clocks held down by {', '.join(held)}")
        if one["xid_errors"]:
            counted = ", ".join(f"{xid} ({times:.0f})" for xid, times in one["xid_errors"].items())
            lines.append(f"{of}: the driver reported Xid {counted}")
        if one["silent_ns"] > STALE_NS:
            lines.append(f"{of}: nothing received for {duration(one['silent_ns'])}")
        if one["bandwidth"] is None and one["silent_ns"] <= STALE_NS:
            lines.append(
                f"{of}: no bandwidth, for GPUs before Hopper do not tell it; kernels ran "
                f"{_percent(one['kernel_active_ratio'])} of the time, however small they were"
            )
    if any(one["parent_uuid"] is not None for one in gpus):
        lines.append("* an instance of a partitioned GPU")
    return [Text(line, "yellow") for line in lines]


def _bandwidth(one: GpuDocument) -> str:
    bandwidth = one["bandwidth"]
    if bandwidth is None:
        return UNKNOWN
    ratio = share(bandwidth["utilization_ratio"])
    rate = bandwidth["bytes_per_second"]
    return ratio if rate is None else f"{ratio}  {rate / GIGABYTE:,.0f} GB/s"


def _memory(one: GpuDocument) -> str:
    used, total = one["memory_used_bytes"], one["memory_total_bytes"]
    if used is None or total is None:
        return UNKNOWN
    return f"{used / GIGABYTE:.1f} of {total / GIGABYTE:.0f} GB"


def _percent(ratio: float | None) -> str:
    return share(ratio)


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else value / unit


def _in(value: float | None, unit: str) -> str:
    return UNKNOWN if value is None else f"{value:.0f} {unit}".rstrip()
