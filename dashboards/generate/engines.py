"""Engines: what waits and runs in them, how full their caches are."""

from typing import Final

from dashboards.generate.cohort_variables import SCRAPED_VARIABLES
from dashboards.generate.dashboard import Json, dashboard, variable
from dashboards.generate.panel import THIRD, TOKENS_PER_S, target
from dashboards.generate.panels import graph, number
from dashboards.generate.queries import SCRAPED, total

_ENGINE = "latencytrace_engine"
_OF_TARGET = f'{SCRAPED},target=~"$target"'
_CHOSEN = f'{_OF_TARGET},engine=~"$engine",model=~"$model"'
_BY = ["engine", "target", "model"]
_LEGEND = "{{engine}} {{target}} {{model}}"
_QUERIES, _HITS, _PREEMPTIONS, _INPUT, _OUTPUT = (
    f"{_ENGINE}_{name}_total"
    for name in (
        "prefix_cache_queries",
        "prefix_cache_hits",
        "preemptions",
        "input_tokens",
        "output_tokens",
    )
)


def _value(name: str) -> str:
    return f"{_ENGINE}_{name}{{{_CHOSEN}}}"


def _each(name: str) -> list[Json]:
    return [target(f"max by ({', '.join(_BY)}) ({_value(name)})", _LEGEND)]


_SUMMARY = [
    number("Engines up", "Those that are read.", "short", f"sum({_ENGINE}_up{{{_OF_TARGET}}})"),
    number(
        "Waiting", "Requests that wait in engines.", "short", f"sum({_value('waiting_requests')})"
    ),
    number(
        "Running", "Requests that engines work on.", "short", f"sum({_value('running_requests')})"
    ),
    number(
        "Fullest KV cache",
        "Share in use, of the engine where it is largest. A full one puts requests back to wait.",
        "percentunit",
        f"max({_value('kv_cache_use_ratio')})",
    ),
    number(
        "Prefix cache hits",
        "Share of input tokens that need no prefill.",
        "percentunit",
        f"{total(_HITS, where=_CHOSEN)} / {total(_QUERIES, where=_CHOSEN)}",
    ),
    number(
        "Preemptions",
        "Running requests put back to wait, a second: their prefill was for nothing.",
        "cps",
        total(_PREEMPTIONS, where=_CHOSEN),
    ),
]
_REQUESTS = [
    graph(
        "Waiting requests",
        "Where this grows, the time in the stage `queue` does.",
        "short",
        _each("waiting_requests"),
        width=THIRD,
    ),
    graph(
        "Running requests",
        "Requests that the engine works on.",
        "short",
        _each("running_requests"),
        width=THIRD,
    ),
    graph(
        "Batch size",
        "Requests served together in a step; of engines that only count them, the mean since the "
        "reading before.",
        "short",
        _each("batch_size"),
        width=THIRD,
    ),
]
_CACHES = [
    graph(
        "KV cache in use",
        "Share of its blocks. Near 100 % requests wait although the GPU could take them.",
        "percentunit",
        _each("kv_cache_use_ratio"),
        width=THIRD,
    ),
    graph(
        "Prefix cache hits by engine",
        "Share of input tokens found in the prefix cache.",
        "percentunit",
        [
            target(
                f"{total(_HITS, _BY, where=_CHOSEN)} / {total(_QUERIES, _BY, where=_CHOSEN)}",
                _LEGEND,
            )
        ],
        width=THIRD,
    ),
    graph(
        "Preemptions by engine",
        "Running requests put back to wait, a second.",
        "cps",
        [target(total(_PREEMPTIONS, _BY, where=_CHOSEN), _LEGEND)],
        width=THIRD,
    ),
]
_TOKENS = [
    graph(
        "Input tokens",
        "Read, a second; those found in a cache included.",
        TOKENS_PER_S,
        [target(total(_INPUT, _BY, where=_CHOSEN), _LEGEND)],
        width=THIRD,
    ),
    graph(
        "Output tokens",
        "Generated, a second.",
        TOKENS_PER_S,
        [target(total(_OUTPUT, _BY, where=_CHOSEN), _LEGEND)],
        width=THIRD,
    ),
    graph(
        "Accepted drafts",
        "Share of the tokens drafted by speculative decoding that were accepted.",
        "percentunit",
        _each("speculative_acceptance_ratio"),
        width=THIRD,
    ),
]

ENGINES: Final = dashboard(
    "latencytrace-engines",
    "latencytrace / Engines",
    "What waits and runs in inference engines, and how full their caches are.",
    variables=[
        *SCRAPED_VARIABLES,
        variable("target", f"{_ENGINE}_up{{{SCRAPED}}}"),
        variable("engine", f"{_ENGINE}_waiting_requests{{{_OF_TARGET}}}"),
        variable("model", f'{_ENGINE}_waiting_requests{{{_OF_TARGET},engine=~"$engine"}}'),
    ],
    rows={
        "Now": _SUMMARY,
        "Requests": _REQUESTS,
        "Caches": _CACHES,
        "Tokens in and out": _TOKENS,
    },
)
