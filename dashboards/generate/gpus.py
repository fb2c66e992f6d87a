"""GPUs: how busy, how full, how hot, and what holds their clocks down."""

from typing import Final

from dashboards.generate.cohort_variables import SCRAPED_VARIABLES
from dashboards.generate.dashboard import Json, dashboard, variable
from dashboards.generate.panel import HALF, THIRD, target
from dashboards.generate.panels import graph, number, states
from dashboards.generate.queries import SCRAPED, STEP
from latencytrace.model.gpu import THROTTLING

_GPU = "latencytrace_gpu"
_CHOSEN = f'{SCRAPED},name=~"$name",uuid=~"$uuid"'
_LEGEND = "GPU {{gpu}}"
_THROTTLING = "|".join(sorted(THROTTLING))


def _value(metric: str) -> str:
    return f"{_GPU}_{metric}{{{_CHOSEN}}}"


def _each(metric: str, *more: str, of: str = _LEGEND) -> Json:
    """A value of each GPU; of several services that tell it one."""
    expr = f"max by ({', '.join(['gpu', 'uuid', *more])}) ({_value(metric)})"
    return target(expr, " ".join([of, *(f"{{{{{label}}}}}" for label in more)]))


def _count(metric: str, label: str) -> Json:
    """How often something rare happened before each point."""
    counted = f"increase({_value(f'{metric}_total')}[{STEP}])"
    return target(f"sum by (gpu, uuid, {label}) ({counted})", f"{_LEGEND} {{{{{label}}}}}")


_USED_SHARE = (
    f"max by (gpu, uuid) ({_value('memory_used_bytes')})"
    f" / max by (gpu, uuid) ({_value('memory_total_bytes')})"
)
_SUMMARY = [
    number(
        "GPUs",
        "Those that agents read.",
        "short",
        f"count(max by (gpu, uuid) ({_value('kernel_active_ratio')}))",
    ),
    number(
        "Any kernel running",
        "Mean share of time in which anything ran, however small: 100 % is not a full GPU.",
        "percentunit",
        f"avg({_value('kernel_active_ratio')})",
    ),
    number(
        "Memory bandwidth",
        "Mean share of what memory could move. Decoding is bound by it.",
        "percentunit",
        f"avg({_value('memory_bandwidth_utilization_ratio')})",
    ),
    number(
        "Fullest memory",
        "Share allocated, of the GPU where it is largest.",
        "percentunit",
        f"max({_USED_SHARE})",
    ),
    number("Power", "Drawn by all of them.", "watt", f"sum({_value('power_watts')})"),
    number(
        "Highest temperature",
        "Of all sensors.",
        "celsius",
        f"max({_value('temperature_celsius')})",
    ),
]
_BUSY = [
    graph(
        "Kernels active",
        "Share of time in which any kernel ran.",
        "percentunit",
        [_each("kernel_active_ratio")],
        width=THIRD,
    ),
    graph(
        "Multiprocessors active",
        "Share of them that had work: low while kernels are active means small batches.",
        "percentunit",
        [_each("sm_active_ratio")],
        width=THIRD,
    ),
    graph(
        "Pipes active",
        "Share of cycles in which each kind of arithmetic worked. Prefill is bound by `tensor`.",
        "percentunit",
        [_each("pipe_active_ratio", "pipe")],
        width=THIRD,
    ),
]
_MEMORY = [
    graph(
        "Memory bandwidth used",
        "Bytes moved to and from memory, of its peak.",
        "percentunit",
        [_each("memory_bandwidth_utilization_ratio", "method")],
        width=THIRD,
    ),
    graph(
        "Memory allocated",
        "Share of the memory there is; an engine's KV cache is allocated at its start.",
        "percentunit",
        [target(_USED_SHARE, _LEGEND)],
        width=THIRD,
    ),
    graph(
        "PCIe and NVLink",
        "Bytes a second to the host and to other GPUs.",
        "Bps",
        [
            _each("pcie_bytes_per_second", "direction", of=f"{_LEGEND} PCIe"),
            _each("nvlink_bytes_per_second", "direction", of=f"{_LEGEND} NVLink"),
        ],
        width=THIRD,
    ),
]
_POWER = [
    graph(
        "Power drawn", "As the device averages it.", "watt", [_each("power_watts")], width=THIRD
    ),
    graph("Clocks", "Of each domain.", "hertz", [_each("clock_hertz", "domain")], width=THIRD),
    graph(
        "Temperature",
        "Of each sensor.",
        "celsius",
        [_each("temperature_celsius", "sensor")],
        width=THIRD,
    ),
    states(
        "Throttled clocks",
        "When, and why: power and heat make every stage slower.",
        f"max by (gpu, uuid, reason) "
        f'({_GPU}_clock_event_active{{{_CHOSEN},reason=~"{_THROTTLING}"}})',
        f"{_LEGEND} {{{{reason}}}}",
        {0: ("not throttled", "green"), 1: ("throttled", "orange")},
    ),
]
_FAULTS = [
    graph(
        "Memory errors",
        "ECC errors, in the rate interval before each point.",
        "short",
        [_count("ecc_errors", "type")],
        width=HALF,
    ),
    graph(
        "Driver faults",
        "XID errors by code, likewise.",
        "short",
        [_count("xid_errors", "xid")],
        width=HALF,
    ),
]

GPUS: Final = dashboard(
    "latencytrace-gpus",
    "latencytrace / GPUs",
    "How busy, full and hot GPUs are, and what holds their clocks down.",
    variables=[
        *SCRAPED_VARIABLES,
        variable("name", f"{_GPU}_memory_total_bytes{{{SCRAPED}}}"),
        variable("uuid", f'{_GPU}_memory_total_bytes{{{SCRAPED},name=~"$name"}}'),
    ],
    rows={
        "Now": _SUMMARY,
        "How busy": _BUSY,
        "Memory": _MEMORY,
        "Power": _POWER,
        "Faults": _FAULTS,
    },
)
