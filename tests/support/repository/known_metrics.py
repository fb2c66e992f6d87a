"""Every metric of a service that has seen everything once."""

from collections.abc import Iterable
from pathlib import Path

from prometheus_client.metrics_core import Metric

from latencytrace.model import Repair, RepairKind, Stage
from latencytrace.service.alerting.outbox import NotificationMetrics, Outbox
from latencytrace.service.answers.findings.overhead_documents import (
    OverheadDocument,
    RouteOverheadDocument,
)
from latencytrace.service.ledger_table import LedgerTable
from latencytrace.service.metrics.cohorts import ControlGroup
from latencytrace.service.metrics.slowest import LEAST
from latencytrace.service.metrics.storage import StorageMetrics
from latencytrace.service.metrics.telemetry import Custody, Telemetry
from latencytrace.service.objectives.metrics import ObjectiveMetrics
from latencytrace.service.reports.engine_scraper import EngineScraper
from latencytrace.service.reports.gpu_samplers import MetricReports
from latencytrace.service.storage.retention import Limits, Retention
from latencytrace.service.store import DamagedPart, Partition, Table
from tests.service.reports.test_agents import budget_report
from tests.support.builders.gpu_requests import request, whole_sample
from tests.support.builders.made_requests import made_request
from tests.support.builders.notices import LINKS
from tests.support.builders.traffic import Traffic
from tests.support.fakes.contracts import FakeClock, PartitionedStore, RecordingSink

ENGINES = Path(__file__).parents[2] / "service" / "engine_texts"


def labels_of_metrics(folder: Path) -> dict[str, set[str]]:
    """The name of each series of a service → its labels."""
    samples = [sample for family in families(folder) for sample in family.samples]
    return {sample.name: set(sample.labels) for sample in samples}


def families(folder: Path) -> list[Metric]:
    """Its metrics, also those of which nothing has been counted."""
    return [
        *_of_requests(),
        *_of_storage(),
        *_of_agents(),
        *_of_objectives(folder),
        *_of_engines(),
    ]


def _of_requests() -> Iterable[Metric]:
    telemetry = Telemetry()
    telemetry.watch(
        open_traces=lambda: 0,
        waiting_bytes=lambda: 0,
        evicted=lambda: 0,
        split=lambda: 0,
        late=lambda: 0,
        held_bytes=lambda: 0,
        let_go=lambda: 0,
        custody=lambda: Custody(
            damaged_files={"": 1},
            damaged_parts=[DamagedPart(table="", name="", rows=1, reason="")],
        ),
    )
    telemetry.posts_refused.labels("400")
    telemetry.connection_closed("slow")
    telemetry.attributed_traces.labels("columns")
    telemetry.counted.count(LedgerTable.of([made_request()] * LEAST))
    telemetry.counted.count(
        LedgerTable.of(
            [
                made_request(
                    stages={Stage.DECODE: 60 * 10**9},
                    time_to_first_token_ns=1,
                    time_per_output_token_ns=1,
                    input_tokens=1,
                    output_tokens=1,
                    repairs=(Repair(kind=RepairKind.ORPHAN, span_id="1", detail=""),),
                )
            ]
        )
    )
    return telemetry.registry.collect()


def _of_storage() -> Iterable[Metric]:
    clock = FakeClock()
    whole = Partition(table=Table.SPANS, since_ns=0, until_ns=1, rows=1, bytes=1)
    retention = Retention(PartitionedStore(whole), Limits(), clock, clock)
    retention.step()
    return StorageMetrics(retention).collect()


def _of_agents() -> Iterable[Metric]:
    reports = MetricReports.of(FakeClock())
    reports.take(budget_report())
    reports.take(request([whole_sample()]))
    route = RouteOverheadDocument(
        service="rag", route="POST /chat", requests=100, control_requests=100,
        difference_ns=1, low_ns=0, high_ns=2,
    )  # fmt: skip
    overhead = OverheadDocument(
        requests=100, control_requests=100, needed_control_requests=None, difference_ns=1,
        low_ns=0, high_ns=2, control_ns=1, routes=[route], sentence="",
    )  # fmt: skip
    control = ControlGroup(lambda: overhead, lambda: True, FakeClock())
    return [*reports.collect(), *control.collect()]


def _of_objectives(folder: Path) -> Iterable[Metric]:
    traffic = Traffic(folder)
    traffic.run(minutes=1, bad_ratio=0.5)
    clock = traffic.wall
    outbox = Outbox({"it": RecordingSink()}, LINKS, traffic.memory, clock, clock, lambda: 1.0)
    found = [
        *ObjectiveMetrics(traffic.evaluator).collect(),
        *NotificationMetrics(outbox).collect(),
    ]
    traffic.memory.close()
    return found


def _of_engines() -> Iterable[Metric]:
    text = (ENGINES / "vllm.txt").read_text("utf-8")
    drafted = (
        f'vllm:spec_decode_num_{{}}_tokens_total{{{{model_name="smollm2"}}}} {count}\n'
        for count in (4, 8)
    )
    texts = (text + line.format("draft") + line.format("accepted") for line in drafted)
    engines = EngineScraper(["http://127.0.0.1:8000/metrics"], lambda _: next(texts), FakeClock())
    engines.step()
    engines.step()
    return engines.collect()
