"""`/metrics` counts spans, traces and requests."""

from collections import Counter
from collections.abc import Iterable

import pytest
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from latencytrace.model import Measure, Repair, RepairKind, Request, RequestStatus, Stage
from latencytrace.model.detail import TraceDetail
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.counted_requests import DURATION_BUCKETS
from latencytrace.service.metrics.span_account import Account, Without
from latencytrace.service.metrics.telemetry import Custody, Telemetry
from latencytrace.service.store import DamagedPart
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.made_requests import TRACE, made_request

COHORT = {"service": "rag", "route": "POST /chat", "model": "tiny"}
SECOND_NS = 1_000_000_000


def counted(*requests: Request, max_cohorts: int = 200) -> Telemetry:
    telemetry = Telemetry(max_cohorts)
    telemetry.counted.count(LedgerTable.of(requests))
    return telemetry


def value(telemetry: Telemetry, name: str, **labels: str) -> float | None:
    return telemetry.registry.get_sample_value(name, labels)


def exemplars(telemetry: Telemetry) -> Iterable[dict[str, str]]:
    text = generate_latest(telemetry.registry).decode()  # type: ignore[no-untyped-call] # untyped there
    for family in text_string_to_metric_families(text):  # type: ignore[no-untyped-call] # likewise
        for sample in family.samples:
            if sample.exemplar:
                yield sample.exemplar.labels


def test_a_request_is_counted_by_its_duration() -> None:
    telemetry = counted(made_request(duration_ns=SECOND_NS))
    name = "latencytrace_request_duration_seconds"

    assert value(telemetry, f"{name}_sum", **COHORT) == 1.0
    assert value(telemetry, f"{name}_bucket", **COHORT, le="0.75") == 0
    assert value(telemetry, f"{name}_bucket", **COHORT, le="1.0") == 1


def test_the_stages_of_a_request_add_up_to_its_duration() -> None:
    telemetry = counted(
        made_request(stages={Stage.RETRIEVE: SECOND_NS, Stage.DECODE: 3 * SECOND_NS})
    )
    name = "latencytrace_stage_duration_seconds_sum"

    assert value(telemetry, name, **COHORT, stage="retrieve") == 1.0
    assert value(telemetry, name, **COHORT, stage="decode") == 3.0
    assert value(telemetry, name, **COHORT, stage="prefill") is None


def test_a_request_with_nothing_but_its_own_span_is_counted_as_unattributed() -> None:
    telemetry = counted(made_request(duration_ns=SECOND_NS, detail=TraceDetail.SERVER_SPAN))
    name = "latencytrace_stage_duration_seconds_sum"

    assert value(telemetry, "latencytrace_request_duration_seconds_sum", **COHORT) == 1.0
    assert value(telemetry, name, **COHORT, stage="unattributed") == 1.0


def test_token_latency_and_tokens_are_counted_where_known() -> None:
    telemetry = counted(
        made_request(
            time_to_first_token_ns=SECOND_NS,
            time_per_output_token_ns=SECOND_NS // 10,
            input_tokens=7,
            output_tokens=11,
        )
    )

    assert value(telemetry, "latencytrace_time_to_first_token_seconds_sum", **COHORT) == 1.0
    assert value(telemetry, "latencytrace_time_per_output_token_seconds_sum", **COHORT) == 0.1
    assert value(telemetry, "latencytrace_tokens_total", **COHORT, direction="input") == 7
    assert value(telemetry, "latencytrace_tokens_total", **COHORT, direction="output") == 11


def test_unknown_token_latency_is_not_counted_as_zero() -> None:
    telemetry = counted(made_request())

    assert value(telemetry, "latencytrace_time_to_first_token_seconds_count", **COHORT) is None


@pytest.mark.parametrize("status", list(RequestStatus))
def test_requests_are_counted_by_how_they_ended(status: RequestStatus) -> None:
    telemetry = counted(made_request(status=status))

    assert value(telemetry, "latencytrace_requests_total", **COHORT, status=status.value) == 1


def test_an_inner_request_counts_for_its_own_service() -> None:
    telemetry = counted(made_request(outermost=False, service="search"))

    assert value(
        telemetry, "latencytrace_requests_total", **{**COHORT, "service": "search"}, status="ok"
    )


def test_health_routes_are_left_out() -> None:
    telemetry = counted(made_request(health=True))

    assert value(telemetry, "latencytrace_requests_total", **COHORT, status="ok") is None


def test_an_unknown_model_is_an_empty_label() -> None:
    telemetry = counted(made_request(model=None))

    assert value(telemetry, "latencytrace_requests_total", **{**COHORT, "model": ""}, status="ok")


def test_what_the_service_itself_costs_is_counted() -> None:
    assert value(Telemetry(), "process_cpu_seconds_total")
    assert value(Telemetry(), "process_resident_memory_bytes")


def test_no_series_says_when_another_one_began() -> None:
    telemetry = counted(made_request(time_to_first_token_ns=SECOND_NS, output_tokens=1))

    names = {sample.name for family in telemetry.registry.collect() for sample in family.samples}
    assert not {name for name in names if name.endswith("_created")}


def test_buckets_name_a_trace_each() -> None:
    telemetry = counted(made_request(stages={Stage.DECODE: SECOND_NS}))

    assert list(exemplars(telemetry)) == [{"trace_id": TRACE}] * 2


def test_cohorts_beyond_the_bound_overflow() -> None:
    requests = [made_request(route=f"GET /{number}") for number in range(5)]
    telemetry = counted(*requests, max_cohorts=2)
    overflow = dict.fromkeys(COHORT, "overflow")

    assert value(telemetry, "latencytrace_requests_total", **overflow, status="ok") == 3
    assert value(telemetry, "latencytrace_service_overflowed_requests_total") == 3


def test_labels_are_bounded_in_length() -> None:
    telemetry = counted(made_request(route="x" * 100_000))

    assert value(
        telemetry, "latencytrace_requests_total", **{**COHORT, "route": "x" * 200}, status="ok"
    )


def test_counts_kept_elsewhere_are_read_with_the_metrics() -> None:
    telemetry = Telemetry()
    part = DamagedPart(table="spans", name="20261122_1_1_0", rows=2, reason="")
    counts = {"open": 1, "late": 2}
    account = Account(taken=9, open=2, attributed=3, without=Counter({Without.LATE: 3}))
    telemetry.watch(
        open_traces=lambda: counts["open"],
        waiting_bytes=lambda: 0,
        evicted=lambda: 0,
        split=lambda: 0,
        late=lambda: counts["late"],
        held_bytes=lambda: 3,
        let_go=lambda: 4,
        custody=lambda: Custody(account=account, damaged_parts=[part], failing=True),
    )
    counts["open"] = 5

    assert value(telemetry, "latencytrace_service_open_traces") == 5
    assert value(telemetry, "latencytrace_service_late_traces_total") == 2
    assert value(telemetry, "latencytrace_service_held_bytes") == 3
    assert value(telemetry, "latencytrace_service_let_go_spans_total") == 4
    assert value(telemetry, "latencytrace_service_spans_open") == 2
    assert value(telemetry, "latencytrace_service_spans_attributed_total") == 3
    late = {"reason": "late"}
    assert value(telemetry, "latencytrace_service_spans_without_ledger_total", **late) == 3
    assert value(telemetry, "latencytrace_service_spans_unaccounted") == 1
    labels = {"table": "spans", "part": "20261122_1_1_0"}
    assert value(telemetry, "latencytrace_service_damaged_parts", **labels) == 2
    assert value(telemetry, "latencytrace_service_store_failing") == 1


def test_round_promises_are_boundaries() -> None:
    assert {0.1, 0.2, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 5.0, 30.0, 60.0} <= set(DURATION_BUCKETS)


@pytest.mark.parametrize(
    ("measure", "stage", "name"),
    [
        (Measure.DURATION, None, "latencytrace_request_duration_seconds"),
        (Measure.STAGE, Stage.RETRIEVE, "latencytrace_stage_duration_seconds"),
        (Measure.TIME_TO_FIRST_TOKEN, None, "latencytrace_time_to_first_token_seconds"),
        (Measure.TIME_PER_OUTPUT_TOKEN, None, "latencytrace_time_per_output_token_seconds"),
    ],
)
def test_what_is_promised_is_a_boundary(measure: Measure, stage: Stage | None, name: str) -> None:
    promised = made_objective(measure=measure, stage=stage, threshold_ns=370_000_000)
    telemetry = Telemetry(objectives=[promised])
    telemetry.counted.count(
        LedgerTable.of(
            [
                made_request(
                    stages={Stage.RETRIEVE: 370_000_000},
                    time_to_first_token_ns=370_000_000,
                    time_per_output_token_ns=370_000_000,
                )
            ]
        )
    )
    labels = COHORT if stage is None else {**COHORT, "stage": stage.value}

    assert value(telemetry, f"{name}_bucket", **labels, le="0.185") == 0
    assert value(telemetry, f"{name}_bucket", **labels, le="0.37") == 1


def test_a_request_with_repairs_is_counted_once_for_each_kind() -> None:
    orphans = tuple(
        Repair(kind=RepairKind.ORPHAN, span_id=span_id, detail="") for span_id in ("1", "2")
    )

    telemetry = counted(made_request(repairs=orphans))

    assert value(telemetry, "latencytrace_service_repaired_requests_total", kind="orphan") == 1
