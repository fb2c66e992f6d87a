"""Objectives as OpenSLO's specification, Sloth and Pyrra write them, over our own metrics."""

import re
from pathlib import Path

import pytest

from latencytrace.errors import ObjectivesError
from latencytrace.model import Calendar, Measure, Objective, Severity, Stage
from latencytrace.model.objective import DAY_NS, EACH_ROUTE, HOUR_NS, NO_LIMIT_NS
from latencytrace.service.objectives.file import parse_objectives, read_objectives
from tests.support.builders.made_objectives import made_objective

SLO = """\
apiVersion: openslo/v1
kind: SLO
metadata: {{name: chat-e2e}}
spec:
  service: rag
  budgetingMethod: Occurrences
  timeWindow: [{window}]
  {indicator}
  objectives: [{objectives}]
"""
ROLLING = "{duration: 30d, isRolling: true}"
TARGET = "{displayName: 99 % under 2 s, op: lte, value: 2.0, target: 0.99}"
OURS = "metricSource: {type: latencytrace, spec: {measure: duration, route: POST /chat}}"
DURATION = f"indicator: {{spec: {{thresholdMetric: {{{OURS}}}}}}}"
AVAILABLE = made_objective(display_name="chat-e2e", threshold_ns=NO_LIMIT_NS)


def written(
    indicator: str = DURATION, objectives: str = TARGET, window: str = ROLLING, more: str = ""
) -> str:
    return SLO.format(window=window, indicator=indicator, objectives=objectives) + more


def read(text: str) -> Objective:
    [found] = parse_objectives(text, "o.yaml").objectives
    return found


def fault(text: str) -> str:
    with pytest.raises(ObjectivesError) as raised:
        parse_objectives(text, "o.yaml")
    return str(raised.value)


def ratio(part: str, spec: str, total: str = "route: POST /chat") -> str:
    source = "{{metricSource: {{type: latencytrace, spec: {{{}}}}}}}"
    metrics = f"{part}: {source.format(spec)}, total: {source.format(total)}"
    return f"indicator: {{spec: {{ratioMetric: {{counter: true, {metrics}}}}}}}"


def queries(part: str, query: str, total: str) -> str:
    source = "{{metricSource: {{type: Prometheus, spec: {{query: '{}'}}}}}}"
    metrics = f"{part}: {source.format(query)}, total: {source.format(total)}"
    return f"indicator: {{spec: {{ratioMetric: {{counter: true, {metrics}}}}}}}"


@pytest.mark.parametrize(
    ("part", "spec"),
    [
        ("good", "status: ok, route: POST /chat"),
        ("good", "status: [ok, cancelled], route: POST /chat"),
        ("bad", "status: [error, timeout, rejected], route: POST /chat"),
    ],
)
def test_a_ratio_of_statuses_is_an_objective_of_availability(part: str, spec: str) -> None:
    assert read(written(ratio(part, spec), "{target: 0.99}")) == AVAILABLE
    assert (AVAILABLE.measured, AVAILABLE.limit_ns) == ("availability", None)


def test_a_ratio_within_a_limit_is_what_a_threshold_says() -> None:
    indicator = ratio("good", "measure: duration, value: 2.0, route: POST /chat")
    target = "{displayName: 99 % under 2 s, target: 0.99}"

    assert read(written(indicator, target)) == read(written()) == made_objective()


CHAT = 'service="rag",route="POST /chat"'


@pytest.mark.parametrize("wrap", ["{}", "sum(rate({}[5m]))", "sum by (route) (increase({}[1h]))"])
def test_queries_of_our_counters_are_read(wrap: str) -> None:
    total = wrap.format(f"latencytrace_requests_total{{{CHAT}}}")
    bad = wrap.format(f'latencytrace_requests_total{{{CHAT},status!="ok"}}')
    good = wrap.format(f'latencytrace_requests_total{{{CHAT}, status="ok"}}')

    assert read(written(queries("bad", bad, total), "{target: 0.99}")) == AVAILABLE
    assert read(written(queries("good", good, total), "{target: 0.99}")) == AVAILABLE


@pytest.mark.parametrize(
    ("name", "labels", "measure", "stage"),
    [
        ("request_duration", "", Measure.DURATION, None),
        ("time_to_first_token", "", Measure.TIME_TO_FIRST_TOKEN, None),
        ("time_per_output_token", "", Measure.TIME_PER_OUTPUT_TOKEN, None),
        ("stage_duration", ',stage="retrieve"', Measure.STAGE, Stage.RETRIEVE),
    ],
)
def test_queries_of_our_histograms_are_read(
    name: str, labels: str, measure: Measure, stage: Stage | None
) -> None:
    metric = f"latencytrace_{name}_seconds"
    good = f'sum(rate({metric}_bucket{{{CHAT}{labels},le="2.0"}}[5m]))'
    total = f"sum(rate({metric}_count{{{CHAT}{labels}}}[5m]))"
    found = read(written(queries("good", good, total), "{target: 0.99}"))

    assert (found.measure, found.stage, found.threshold_ns) == (measure, stage, 2 * 10**9)
    assert (found.service, found.route) == ("rag", "POST /chat")


@pytest.mark.parametrize("written_so", ["null", "~", "Null"])
def test_null_is_no_name(written_so: str) -> None:
    service = fault(written().replace("service: rag", f"service: {written_so}"))
    route = fault(written().replace("route: POST /chat", f"route: {written_so}"))

    assert "service must be a text" in service
    assert "route must be a text" in route


def test_a_route_with_braces_is_a_route() -> None:
    query = 'latencytrace_requests_total{service="rag",route="GET /users/{id}"%s}'
    found = read(written(queries("bad", query % ',status!="ok"', query % ""), "{target: 0.99}"))

    assert found.route == "GET /users/{id}"


REFUSED_QUERIES = {
    "another metric": ('http_requests_total{code=~"5.."}', "which latencytrace does not count"),
    "one status of several": (
        f'latencytrace_requests_total{{{CHAT},status="timeout"}}', "all that fail are bad"
    ),
    "other requests": (
        'latencytrace_requests_total{service="rag",status!="ok"}', "write the same labels"
    ),
    "several routes": (
        'latencytrace_requests_total{service="rag",route=~"a|b",status!="ok"}', "of one route"
    ),
    "an unknown label": (
        f'latencytrace_requests_total{{{CHAT},status!="ok",pod="x"}}', "the label 'pod'"
    ),
    "two counters": ("latencytrace_a + latencytrace_b", "is no sum of one counter"),
    "no closed text": ('latencytrace_requests_total{service="rag', "is no sum of one counter"),
    "a label without a value": ("latencytrace_requests_total{service}", "not understood"),
}  # fmt: skip


@pytest.mark.parametrize(("query", "says"), REFUSED_QUERIES.values(), ids=REFUSED_QUERIES)
def test_queries_that_an_objective_cannot_be_are_refused(query: str, says: str) -> None:
    total = f"latencytrace_requests_total{{{CHAT}}}"
    said = fault(written(queries("bad", query, total), "{target: 0.99}"))

    assert said.startswith("o.yaml, line 8: spec.indicator.spec.ratioMetric.bad")
    assert says in said


@pytest.mark.parametrize(
    ("op", "measure", "value", "limit_ns"),
    [
        ("lte", "duration", "2", 2 * 10**9),
        ("lt", "duration", "2", 2 * 10**9 - 1),
        ("gte", "output_tokens_per_second", "20", 50 * 10**6),
        ("gt", "output_tokens_per_second", "20", 50 * 10**6 - 1),
    ],
)
def test_every_operator_is_read_where_it_makes_sense(
    op: str, measure: str, value: str, limit_ns: int
) -> None:
    indicator = DURATION.replace("measure: duration", f"measure: {measure}")
    found = read(written(indicator, f"{{op: {op}, value: {value}, target: 0.99}}"))

    assert found.threshold_ns == limit_ns


def test_an_operator_for_which_slow_is_good_is_refused() -> None:
    assert "write lte or lt" in fault(written(objectives=TARGET.replace("lte", "gt")))
    rate = DURATION.replace("measure: duration", "measure: output_tokens_per_second")
    assert "write gte or gt" in fault(written(rate))


SLI = """---
apiVersion: openslo/v1
kind: SLI
metadata: {name: chat-duration}
spec: {thresholdMetric: {metricSource: {metricSourceRef: here, spec: {measure: duration, route: POST /chat}}}}
---
apiVersion: openslo/v1
kind: DataSource
metadata: {name: here}
spec: {type: latencytrace, connectionDetails: {}}
"""  # noqa: E501 - a document


def test_an_indicator_is_referred_to_in_the_same_file() -> None:
    assert read(written("indicatorRef: chat-duration", more=SLI)) == made_objective()


def test_an_indicator_is_referred_to_in_a_file_beside(tmp_path: Path) -> None:
    (tmp_path / "objectives.yaml").write_text(written("indicatorRef: chat-duration"))
    (tmp_path / "indicators.yml").write_text(SLI)
    (tmp_path / "unrelated.yaml").write_text("services: {web: {image: x}}")
    (tmp_path / "broken.yaml").write_text("{")

    assert read_objectives(tmp_path / "objectives.yaml").objectives == (made_objective(),)


def test_a_folder_is_read_as_one_file(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(SLI)
    (tmp_path / "b.yaml").write_text(written("indicatorRef: chat-duration"))
    (tmp_path / "c.yml").write_text(written().replace("chat-e2e", "second"))
    (tmp_path / "notes.txt").write_text("{")

    assert [one.name for one in read_objectives(tmp_path).objectives] == ["chat-e2e", "second"]


@pytest.mark.parametrize(
    ("indicator", "says"),
    [
        ("indicatorRef: nobody", "names no SLI 'nobody'"),
        (
            "indicator: {spec: {thresholdMetric: {metricSource: {metricSourceRef: x, spec: {}}}}}",
            "names no DataSource 'x'",
        ),
        ("indicator: {spec: {}}", "needs either a thresholdMetric or a ratioMetric"),
        ("description: x", "has no 'indicator'"),
        (ratio("good", "route: POST /chat"), "says not what is good"),
        (ratio("bad", "status: [timeout], route: POST /chat"), "tells apart how requests fail"),
        (ratio("good", "status: fine"), "write ok, error"),
        (ratio("good", "status: ok"), "write the same route"),
        (ratio("good", "status: ok", "status: ok"), "total counts all"),
    ],
)
def test_an_indicator_that_is_none_is_refused(indicator: str, says: str) -> None:
    said = fault(written(indicator, "{target: 0.99}"))

    assert re.match(r"o\.yaml, line [48]: ", said)
    assert says in said


def test_objectives_of_one_document_may_have_indicators_of_their_own() -> None:
    own = f"{{{ratio('good', 'status: ok, route: POST /chat')}, target: 0.999}}"
    first, second = parse_objectives(
        written("description: both", f"{own}, {{{DURATION}, {TARGET[1:]}"), "o.yaml"
    ).objectives

    assert (first.name, first.limit_ns, first.target_ratio) == ("chat-e2e-1", None, 0.999)
    assert (second.name, second.limit_ns) == ("chat-e2e-2", 2 * 10**9)


@pytest.mark.parametrize(
    ("duration", "length_ns", "months", "days"),
    [("1M", 30 * DAY_NS, 1, 0), ("1Q", 91 * DAY_NS, 3, 0), ("1w", 7 * DAY_NS, 0, 7)],
)
def test_a_period_may_begin_with_the_calendar(
    duration: str, length_ns: int, months: int, days: int
) -> None:
    window = (
        f"{{duration: {duration}, isRolling: false, "
        "calendar: {startTime: 2026-01-01 00:00:00, timeZone: Europe/Berlin}}"
    )
    found = read(written(window=window))
    expected = Calendar(
        start="2026-01-01T00:00:00", zone="Europe/Berlin", months=months, days=days
    )

    assert (found.period_ns, found.calendar) == (length_ns, expected)


def test_a_rolling_month_has_thirty_days() -> None:
    found = read(written(window="{duration: 1M, isRolling: true}"))

    assert (found.period_ns, found.calendar) == (30 * DAY_NS, None)


JANUARY = "calendar: {startTime: 2026-01-01 00:00:00, timeZone: UTC}"


@pytest.mark.parametrize(
    ("window", "says"),
    [
        ("{duration: 1Y, isRolling: true}", "at most 1Q"),
        (f"{{duration: 1M, isRolling: true, {JANUARY}}}", "must roll or have a calendar"),
        ("{duration: 1M, isRolling: false}", "must roll or have a calendar"),
        (f"{{duration: 36h, {JANUARY}}}", "no whole days"),
        ("{duration: 1M, calendar: {startTime: yesterday, timeZone: UTC}}", "another startTime"),
        ("{duration: 1M, calendar: {startTime: 2026-01-01, timeZone: Mars/Base}}", "no time zone"),
    ],
)  # fmt: skip
def test_a_period_that_is_none_is_refused(window: str, says: str) -> None:
    said = fault(written(window=window))

    assert said.startswith("o.yaml, line 7: ")
    assert says in said


POLICY = """  alertPolicies:
    - alertPolicyRef: on-call
---
apiVersion: openslo/v1
kind: AlertPolicy
metadata: {name: on-call}
spec:
  conditions: [{conditionRef: fast}]
  notificationTargets: [{targetRef: channel}, {targetRef: mail}]
---
apiVersion: openslo/v1
kind: AlertCondition
metadata: {name: fast}
spec:
  severity: page
  condition: {kind: burnrate, op: gte, threshold: 10, lookbackWindow: 2h, alertAfter: 5m}
---
apiVersion: openslo/v1
kind: AlertNotificationTarget
metadata: {name: channel}
spec: {target: Slack}
---
apiVersion: openslo/v1
kind: AlertNotificationTarget
metadata: {name: mail}
spec: {target: email}
"""


def test_alert_policies_name_tiers_and_receivers() -> None:
    found = parse_objectives(written(more=POLICY), "o.yaml")
    [objective] = found.objectives
    [tier] = objective.tiers

    assert (tier.factor, tier.long_ns, tier.severity) == (10, 2 * HOUR_NS, Severity.PAGE)
    assert objective.receivers == ("slack",)
    assert [note.partition(": ")[2][:30] for note in found.notes] == [
        "alertAfter is not read: the bu", "the target 'email' is no sink ",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("severity: page", "severity: whenever", "write page or ticket"),
        ("threshold: 10", "threshold: fast", "write a burn rate, as 14.4"),
        ("lookbackWindow: 2h", "lookbackWindow: 1m", "write 2m at least"),
        ("conditionRef: fast", "conditionRef: slow", "names no AlertCondition 'slow'"),
        ("alertPolicyRef: on-call", "alertPolicyRef: off", "names no AlertPolicy 'off'"),
        ("threshold: 10", "threshold: 200", "no page could ever fire"),
    ],
)
def test_an_alert_policy_that_is_none_is_refused(old: str, new: str, says: str) -> None:
    said = fault(written(more=POLICY.replace(old, new)))

    assert says in said
    assert "the target 0.99: no page" in said or "line 9" not in said


@pytest.mark.parametrize(
    ("said", "pages"),
    [("", True), ("alertWhenNoData: true", True), ("alertWhenNoData: false", False)],
)
def test_a_policy_says_whether_silence_is_an_alert_and_may_keep_the_usual_tiers(
    said: str, *, pages: bool
) -> None:
    policy = f"{{kind: AlertPolicy, metadata: {{name: on-call}}, spec: {{{said}}}}}"
    text = written(more=f"  alertPolicies: [{policy}]\n")
    [objective] = parse_objectives(text, "o.yaml").objectives

    assert objective.pages_on_silence is pages
    assert objective.tiers == ()


ALPHA = """\
apiVersion: openslo/v1alpha
kind: SLO
metadata: {name: chat-e2e}
spec:
  service: rag
  budgetingMethod: Occurrences
  objectives:
    - ratioMetrics:
        good: {source: prometheus, queryType: promql, query: 'GOOD'}
        total: {source: prometheus, queryType: promql, query: 'TOTAL'}
      target: 0.99
  timeWindows: [{count: 30, unit: Day}]
"""
SLOTH = """\
version: prometheus/v1
service: rag
slos:
  - name: requests-availability
    objective: 99
    description: chat-e2e
    sli:
      events:
        error_query: BAD
        total_query: TOTAL
    alerting: {page_alert: {labels: {severity: page}}}
"""
PYRRA = """\
apiVersion: pyrra.dev/v1alpha1
kind: ServiceLevelObjective
metadata: {name: chat-e2e}
spec:
  target: "99"
  window: 30d
  indicator:
    ratio:
      errors: {metric: 'BAD'}
      total: {metric: 'TOTAL'}
"""


def filled(text: str, wrap: str = "{}") -> str:
    def query(more: str) -> str:
        return wrap.format(f"latencytrace_requests_total{{{CHAT}{more}}}")

    text = text.replace("TOTAL", query(""))
    return text.replace("BAD", query(',status!="ok"')).replace("GOOD", query(',status="ok"'))


def test_openslo_v1alpha_is_read_with_a_hint() -> None:
    found = parse_objectives(filled(ALPHA, "sum(rate({}[{{{{.window}}}}]))"), "o.yaml")

    assert found.objectives == (AVAILABLE,)
    assert found.notes[0].startswith("o.yaml, line 1: openslo/v1alpha is read; v1 has `timeWindow")


@pytest.mark.parametrize(
    ("window", "days"),
    [
        ("48, unit: Hour", 2),
        ("4, unit: Week", 28),
        ("2, unit: Month", 60),
        ("1, unit: Quarter", 91),
    ],
)
def test_openslo_v1alpha_has_units_of_time(window: str, days: int) -> None:
    found = read(filled(ALPHA).replace("30, unit: Day", window))

    assert found.period_ns == days * DAY_NS


def test_sloths_events_are_read() -> None:
    found = read(filled(SLOTH, "sum(rate({}[{{{{.window}}}}]))"))

    assert found == made_objective(
        name="rag-requests-availability", display_name="chat-e2e", threshold_ns=NO_LIMIT_NS
    )


def test_sloths_kubernetes_resource_is_read() -> None:
    body = filled(SLOTH).replace("error_query", "errorQuery").replace("total_query", "totalQuery")
    head = (
        "apiVersion: sloth.slok.dev/v1\nkind: PrometheusServiceLevel\nmetadata: {name: x}\nspec:\n"
    )
    indented = "".join(f"  {line}\n" for line in body.splitlines()[1:])

    assert read(head + indented) == read(filled(SLOTH))


def test_sloths_requests_that_are_all_less_the_fast_ones_are_a_limit() -> None:
    histogram = "latencytrace_request_duration_seconds"
    total = f"sum(rate({histogram}_count{{{CHAT}}}[{{{{.window}}}}]))"
    fast = f'sum(rate({histogram}_bucket{{{CHAT},le="2.0"}}[{{{{.window}}}}]))'
    text = SLOTH.replace(
        "BAD",
        f"|\n          (\n            {total}\n            -\n            {fast}\n          )",
    )

    assert read(text.replace("TOTAL", total)).limit_ns == 2 * 10**9


@pytest.mark.parametrize("service", ["web", "k8s-apiserver"])
def test_what_a_refusal_of_sloths_limit_says_to_write_is_taken(service: str) -> None:
    theirs = 'sum(rate(http_seconds_count{job="x"}[{{.window}}]))'
    fast = 'sum(rate(http_seconds_bucket{job="x",le="0.4"}[{{.window}}]))'
    text = SLOTH.replace("service: rag", f"service: {service}")
    text = text.replace("BAD", f"{theirs} - {fast}").replace("TOTAL", theirs)
    bad, total = re.findall(r"does not count: write (.*)", fault(text))

    found = read(text.replace(f"{theirs} - {fast}", bad).replace(theirs, total))
    assert (found.service, found.limit_ns) == (service, 400 * 10**6)


def test_pyrras_native_latency_says_to_write_a_histogram() -> None:
    native = PYRRA.replace("ratio:", "latencyNative:")
    native = native.replace("errors: {metric: 'BAD'}", "latency: 2s")
    [instead] = re.findall(
        r"not count: write (.*)", fault(native.replace("TOTAL", "grpc_seconds"))
    )
    ours = instead.replace("SERVICE", "rag").replace("ROUTE", "POST /chat")

    assert read(native.replace("TOTAL", ours)) == made_objective(display_name="chat-e2e")


def test_sloths_pages_can_be_switched_off() -> None:
    off = "alerting: {page_alert: {disable: true}}"
    found = read(filled(SLOTH).replace("alerting: {page_alert: {labels: {severity: page}}}", off))

    assert {tier.severity for tier in found.tiers} == {Severity.TICKET}


def test_pyrras_ratio_is_read() -> None:
    assert read(filled(PYRRA)) == AVAILABLE


def test_pyrras_latencies_are_read() -> None:
    histogram = "latencytrace_request_duration_seconds"
    classic = PYRRA.replace("ratio:", "latency:").replace("errors:", "success:")
    classic = classic.replace("BAD", f'{histogram}_bucket{{{CHAT},le="2.0"}}')
    native = PYRRA.replace("ratio:", "latencyNative:").replace(
        "errors: {metric: 'BAD'}", "latency: 2s"
    )
    of_both = (
        read(classic.replace("TOTAL", f"{histogram}_count{{{CHAT}}}")),
        read(native.replace("TOTAL", f"{histogram}{{{CHAT}}}")),
    )

    assert of_both == (made_objective(display_name="chat-e2e"),) * 2


def test_pyrras_grouping_by_route_is_an_objective_of_each_route() -> None:
    text = filled(PYRRA).replace(',route="POST /chat"', "") + "      grouping: [route]\n"

    assert read(text).route == EACH_ROUTE


REFUSED = {
    "a plugin": (SLOTH.replace("events:", "plugin:"), 8, "write events"),
    "a raw ratio": (SLOTH.replace("events:", "raw:"), 8, "write events"),
    "no query": (filled(SLOTH).replace("total_query", "all_query"), 8, "has no 'totalQuery'"),
    "a whole share": (filled(SLOTH).replace("objective: 99", "objective: 100"), 5, "below 100"),
    "alert windows": ("apiVersion: sloth.slok.dev/v1\nkind: AlertWindows\n", 1, "AlertPolicy"),
    "a gauge": (PYRRA.replace("ratio:", "bool_gauge:"), 8, "write ratio"),
    "another group": (filled(PYRRA) + "      grouping: [pod]\n", 11, "grouped by route only"),
    "no service": (filled(PYRRA).replace('service="rag",', ""), 3, 'write service="NAME"'),
    "a long window": (filled(PYRRA).replace("30d", "1Y"), 6, "at most 1Q"),
    "no target": (filled(ALPHA).replace("target: 0.99", "value: 1"), 8, "has no 'target'"),
    "half a day": (filled(ALPHA).replace("unit: Day", "unit: Second"), 12, "as 30 and Day"),
}


@pytest.mark.parametrize(("text", "line", "says"), REFUSED.values(), ids=REFUSED)
def test_what_others_have_and_we_do_not_is_refused_with_its_line(
    text: str, line: int, says: str
) -> None:
    said = fault(text)

    assert f"o.yaml, line {line}: " in said
    assert says in said


THEIRS = 'http_request_duration_seconds_count{job="web"%s}'


@pytest.mark.parametrize("text", [ALPHA, SLOTH, PYRRA], ids=["openslo", "sloth", "pyrra"])
@pytest.mark.parametrize("wrap", ["%s", "sum(rate(%s[{{.window}}]))"])
def test_what_a_refusal_says_to_write_is_taken(text: str, wrap: str) -> None:
    codes = {"GOOD": ',code!~"5.."', "BAD": ',code=~"5.."', "TOTAL": ""}
    for part, more in codes.items():
        text = text.replace(part, wrap % (THEIRS % more))
    advice = re.findall(r"asks (\w+), which latencytrace does not count: write (.*)", fault(text))
    for part, (_, instead) in zip(
        [part for part in codes if wrap % (THEIRS % codes[part]) in text], advice, strict=True
    ):
        text = text.replace(wrap % (THEIRS % codes[part]), instead)
    found = read(text.replace("SERVICE", "rag").replace("ROUTE", "POST /chat"))

    assert (found.service, found.route, found.limit_ns) == ("rag", "POST /chat", None)


@pytest.mark.parametrize("query", ['""', "[a]", "{a: b}"])
def test_a_query_that_is_no_text_is_a_fault_with_its_line(query: str) -> None:
    text = SLOTH.replace("BAD", query).replace("TOTAL", query)

    assert "line 9: slos[0].sli.events.error_query must be a text" in fault(text)
