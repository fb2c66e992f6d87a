"""Health: what the service takes in, drops and costs, and how the agents do."""

from typing import Final

from dashboards.generate.cohort_variables import SCRAPED_VARIABLES
from dashboards.generate.dashboard import Json, dashboard, variable
from dashboards.generate.panel import DAYS, HALF, SPANS_PER_S, THIRD, target
from dashboards.generate.panels import graph, number
from dashboards.generate.queries import PERIOD, SCRAPED, total
from dashboards.generate.tables import table

_SERVICE = "latencytrace_service"
_AGENT = "latencytrace_agent"
_AGENTS = f'{SCRAPED},service=~"$service"'


def _rate(metric: str, legend: str, *by: str) -> Json:
    return target(total(f"{_SERVICE}_{metric}_total", by, where=SCRAPED), legend)


def _value(metric: str, legend: str = "{{instance}}") -> Json:
    return target(f"{metric}{{{SCRAPED}}}", legend)


def _or_none(expr: str, legend: str) -> Json:
    """What has no series until there is something of it."""
    return target(f"{expr} or vector(0)", legend)


def _gauge(metric: str, legend: str, *by: str) -> Json:
    grouped = ", ".join(["instance", *by])
    return target(f"max by ({grouped}) ({_SERVICE}_{metric}{{{SCRAPED}}})", legend)


def _of_agents(metric: str) -> Json:
    counted = total(f"{_AGENT}_{metric}_total", ["service"], where=_AGENTS)
    return target(counted, f"{{{{service}}}} {metric.replace('_', ' ')}")


def _most(metric: str, legend: str) -> Json:
    return target(f"max by (service) ({_AGENT}_{metric}{{{_AGENTS}}})", legend)


_SUMMARY = [
    number("Up", "Services that Prometheus reaches.", "short", f"sum(up{{{SCRAPED}}})"),
    number(
        "Agents",
        "Programs that are traced and have reported within three minutes.",
        "short",
        f"count({_AGENT}_info{{{_AGENTS}}})",
    ),
    number(
        "Spans kept",
        "Spans that were kept, a second.",
        SPANS_PER_S,
        total(f"{_SERVICE}_spans_received_total", where=SCRAPED),
    ),
    number(
        "Spans lost by agents",
        "Spans that agents dropped, a second: the service was away, or slower than they are.",
        SPANS_PER_S,
        total(f"{_AGENT}_spans_dropped_total", where=_AGENTS),
    ),
    number(
        "Overflowed requests",
        "Requests counted in the cohort `overflow`, a second: there are too many combinations of "
        "service, route and model.",
        "reqps",
        total(f"{_SERVICE}_overflowed_requests_total", where=SCRAPED),
    ),
    number(
        "Faults",
        "Traces that the service set aside, and errors of their own that agents kept from their "
        "programs, a second. Anything but 0 is a bug of latencytrace: please report it.",
        "cps",
        f"{total(f'{_SERVICE}_faulty_traces_total', where=SCRAPED)} + "
        f"({total(f'{_AGENT}_faults_total', where=_AGENTS)} or vector(0))",
    ),
]
_INTAKE = [
    graph(
        "Spans",
        "Spans that were kept, and those rejected by partial success, a second.",
        SPANS_PER_S,
        [_rate("spans_received", "kept"), _rate("spans_rejected", "rejected")],
        width=THIRD,
    ),
    graph(
        "Posts refused",
        "Posts that were not kept, by HTTP status, and connections closed before their time. "
        "Senders repeat those of 429 and 503.",
        "reqps",
        [
            _rate("posts_refused", "{{code}}", "code"),
            _or_none(
                total(f"{_SERVICE}_connections_closed_total", where=SCRAPED), "connections closed"
            ),
        ],
        width=THIRD,
    ),
    graph(
        "Not kept of what was sent",
        "Data points of metrics that are not an agent's or beyond the limits, engines that did "
        "not answer, and attributes left out as content (prompts, texts and the like), a second.",
        "cps",
        [
            _rate("data_points_ignored", "data points ignored"),
            _rate("gpu_points_dropped", "points of GPUs dropped"),
            _rate("engine_scrapes_failed", "engine not read: {{target}}", "target"),
            _rate("content_removed", "content removed"),
        ],
        width=THIRD,
    ),
]
_TRACES = [
    graph(
        "Open traces",
        "Traces whose spans still come.",
        "short",
        [_value(f"{_SERVICE}_open_traces")],
        width=THIRD,
    ),
    graph(
        "Waiting to be kept",
        "Bytes received and not yet stored; when they only grow, the disk or the processor is "
        "too slow. And memory that holds spans of open traces.",
        "bytes",
        [
            _value(f"{_SERVICE}_waiting_bytes", "{{instance}} waiting"),
            _value(f"{_SERVICE}_held_bytes", "{{instance}} held"),
        ],
        width=THIRD,
    ),
    graph(
        "Not stored, not sent",
        "A second: batches of traces that the store could not take, which are tried again, and "
        "metrics that an OTLP receiver did not take, which the next ones make good.",
        "cps",
        [_rate("store_errors", "not stored"), _rate("metrics_unsent", "metrics not sent")],
        width=THIRD,
    ),
    graph(
        "Late and incomplete traces",
        "A second: traces divided anew or early, those whose spans came too late, and spans that "
        "memory had no room for.",
        "cps",
        [
            _rate("revised", "revised: a span came late"),
            _rate("late_traces", "late: it came too late"),
            _rate("outdated_traces", "outdated: its other spans are gone"),
            _rate("withdrawn_requests", "withdrawn: part of another request"),
            _rate("evicted_traces", "evicted: too many were open"),
            _rate("split_traces", "split: several services had a part"),
            _rate("let_go_spans", "spans let go: no room in memory"),
        ],
        width=THIRD,
    ),
    graph(
        "Repaired requests",
        "Requests whose trace was mended, by what was wrong with it, a second.",
        "reqps",
        [_rate("repaired_requests", "{{kind}}", "kind")],
        width=THIRD,
    ),
    graph(
        "Set aside and overflowed",
        "A second: traces and batches that met a fault of the service, requests in the cohort "
        "`overflow` and the route `other`, requests too old or of too many routes for an "
        "objective, and agents forgotten because too many report.",
        "cps",
        [
            _rate("faulty_traces", "faulty traces"),
            _rate("faulty_batches", "faulty batches"),
            _rate("recovered", "found without a ledger"),
            _rate("other_route_requests", "requests of other routes"),
            _rate("outdated_requests", "too old for their objective"),
            _rate("future_stamps", "stamped in the future"),
            _rate("ungrouped_requests", "of too many routes"),
            _rate("overflowed_requests", "overflowed requests"),
            _rate("evicted_agents", "evicted agents"),
        ],
        width=THIRD,
    ),
]
_ACCOUNT = [
    graph(
        "Spans without a ledger yet",
        "Spans that wait or whose trace is open, and those whose root has not come. `unaccounted` "
        "is 0, or a fault of the service.",
        "short",
        [
            _gauge(f"spans_{name}", f"{{{{instance}}}} {name}")
            for name in ("open", "rootless", "unaccounted")
        ],
        width=HALF,
    ),
    graph(
        "Spans attributed, and not",
        "Spans whose trace has ledgers, and those whose trace is done with and has none, by "
        "reason, a second.",
        SPANS_PER_S,
        [
            _rate("spans_attributed", "attributed"),
            _rate("spans_without_ledger", "{{reason}}", "reason"),
        ],
        width=HALF,
    ),
    graph(
        "Notifications",
        "Notifications of alerts that sinks took, refused or never got, a second. Refused ones "
        "are tried again for a day.",
        "cps",
        [
            _rate("notices_sent", "{{sink}} sent", "sink"),
            _rate("notices_refused", "{{sink}} refused", "sink"),
            _rate("notices_dropped", "{{sink}} dropped", "sink"),
        ],
        width=HALF,
    ),
    graph(
        "Notifications that wait",
        "What sinks have not taken yet.",
        "short",
        [_gauge("notices_waiting", "{{instance}} {{sink}}", "sink")],
        width=HALF,
    ),
]
_STORE = [
    graph(
        "On disk",
        "Bytes of each table, and what all of them may take.",
        "bytes",
        [
            _gauge("store_bytes", "{{instance}} {{table}}", "table"),
            _gauge("store_limit_bytes", "{{instance}} limit"),
        ],
        width=THIRD,
    ),
    graph(
        "Kept since",
        "Age of the oldest data of each table; 0 until the first is looked at, within a minute.",
        DAYS,
        [
            target(
                f"(time() - max by (instance, table) "
                f"({_SERVICE}_store_oldest_timestamp_seconds{{{SCRAPED}}})) / 86400"
                " or on () vector(0)",
                "{{instance}} {{table}}",
            )
        ],
        width=THIRD,
    ),
    graph(
        "Damaged, or not kept",
        "1 while spans cannot be kept; rows and stretches of the journal that could not be read.",
        "short",
        [
            _gauge("store_failing", "{{instance}} failing"),
            _or_none(f"sum({_SERVICE}_damaged_parts{{{SCRAPED}}})", "damaged rows"),
            _or_none(
                total(f"{_SERVICE}_journal_damaged_blocks_total", where=SCRAPED, period=PERIOD),
                "damaged stretches",
            ),
        ],
        width=THIRD,
    ),
]
_COST = [
    graph(
        "Processor",
        "Cores that the service keeps busy (Linux).",
        "short",
        [target(total("process_cpu_seconds_total", ["instance"], where=SCRAPED), "{{instance}}")],
        width=THIRD,
    ),
    graph(
        "Memory",
        "Memory that the service holds (Linux).",
        "bytes",
        [_value("process_resident_memory_bytes")],
        width=THIRD,
    ),
    graph(
        "Scrapes",
        "How long Prometheus takes to read the service's metrics.",
        "s",
        [_value("scrape_duration_seconds")],
        width=THIRD,
    ),
    graph(
        "Open files",
        "File descriptors that the service holds (Linux).",
        "short",
        [_value("process_open_fds")],
        width=THIRD,
    ),
    graph(
        "Series",
        "Series that Prometheus reads from the service: routes and models make them many.",
        "short",
        [_value("scrape_samples_scraped")],
        width=THIRD,
    ),
    graph(
        "Uptime",
        "Days since the service started: a fall to 0 is a restart.",
        DAYS,
        [target(f"(time() - process_start_time_seconds{{{SCRAPED}}}) / 86400", "{{instance}}")],
        width=THIRD,
    ),
]
_AGENT_COUNTS = [
    graph(
        "Agents by version",
        "Programs that are traced, by their service and the version of latencytrace in them.",
        "short",
        [
            target(
                f"count by (service, version) ({_AGENT}_info{{{_AGENTS}}})",
                "{{service}} {{version}}",
            )
        ],
        width=THIRD,
    ),
    graph(
        "Spans of agents",
        "Spans that agents sent and dropped, a second.",
        SPANS_PER_S,
        [_of_agents("spans_sent"), _of_agents("spans_dropped")],
        width=THIRD,
    ),
    graph(
        "Faults of agents",
        "Errors of their own that agents kept from their programs, a second.",
        "cps",
        [_of_agents("faults")],
        width=THIRD,
    ),
    graph(
        "What tracing takes",
        "Share of its process's CPU time that tracing took in the last five seconds, and what it "
        "may take: the highest of each program.",
        "percentunit",
        [
            _most("overhead_ratio", "{{service}}"),
            _most("overhead_budget_ratio", "{{service}} budget"),
        ],
        width=THIRD,
    ),
    graph(
        "Tracing by part",
        "Cores that parts of the agents keep busy.",
        "short",
        [
            target(
                total(f"{_AGENT}_cpu_seconds_total", ["service", "part"], where=_AGENTS),
                "{{service}} {{part}}",
            )
        ],
        width=THIRD,
    ),
    graph(
        "Requests by detail",
        "In which detail agents record requests, a second.",
        "reqps",
        [
            target(
                total(f"{_AGENT}_requests_total", ["service", "detail"], where=_AGENTS),
                "{{service}} {{detail}}",
            )
        ],
        width=THIRD,
    ),
    graph(
        "Detail lowered",
        "By how many steps agents record less, so that tracing keeps its budget; 0: by none.",
        "short",
        [_most("reduction_steps", "{{service}}")],
        width=HALF,
    ),
    graph(
        "Traces recorded",
        "The share of traces that agents record: the least of each program.",
        "percentunit",
        [target(f"min by (service) ({_AGENT}_sampling_ratio{{{_AGENTS}}})", "{{service}}")],
        width=HALF,
    ),
    table(
        "Hooks",
        "How many agents have each hook in which state, and why it is not applied. "
        "`latencytrace doctor` says what mends it.",
        {
            "Agents": (
                f"count by (service, hook, state, reason) ({_AGENT}_hook{{{_AGENTS}}})",
                "short",
                "auto",
            )
        },
        labels=["service", "hook", "state", "reason"],
    ),
]

HEALTH: Final = dashboard(
    "latencytrace-health",
    "latencytrace / Health",
    "What the service takes in, drops and costs, and how the agents do.",
    variables=[
        *SCRAPED_VARIABLES,
        variable("service", f"{_AGENT}_info{{{SCRAPED}}}"),
    ],
    rows={
        "Now": _SUMMARY,
        "What comes in": _INTAKE,
        "Traces": _TRACES,
        "Account of spans, and notifications": _ACCOUNT,
        "Store": _STORE,
        "What the service costs": _COST,
        "Agents": _AGENT_COUNTS,
    },
)
