"""How a post over HTTP ends, whatever else is being checked."""

import asyncio
import gzip
import threading
from concurrent.futures import Future
from pathlib import Path

import httpx
import pytest

from latencytrace.service.ingest import intake as intake_module
from latencytrace.service.ingest.http import receiver
from latencytrace.service.ingest.intake import LONG_BODY_BYTES, RETRY_AFTER_S, Intake
from latencytrace.service.ingest.workers import MOST_WAITING, THREADS
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp.traces import PROTOBUF, CheckedRequest
from latencytrace.service.profiles.folder import ProfileFolder
from latencytrace.service.profiles.orders import Profiles
from latencytrace.service.reports.gpu_samplers import MetricReports
from tests.support.fakes.contracts import FakeClock
from tests.support.waiting import PATIENCE_S

LONG_BODY = gzip.compress(b"\x0a\x00" * LONG_BODY_BYTES)
HEADERS = {"content-type": PROTOBUF, "content-encoding": "gzip"}


def kept(_: CheckedRequest) -> Future[None]:
    """At once."""
    future: Future[None] = Future()
    future.set_result(None)
    return future


def test_more_long_bodies_than_can_be_checked_are_put_off(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(intake_module, "WAIT_S", 0.0)  # for room
    telemetry, clock = Telemetry(), FakeClock()
    intake = Intake(kept, telemetry)
    profiles = Profiles(ProfileFolder(tmp_path), clock, clock)
    app = receiver(intake, MetricReports.of(clock), profiles)

    async def crowd() -> list[httpx.Response]:
        free = threading.Event()
        all_but_one = range(THREADS + MOST_WAITING - 1)
        held = [asyncio.ensure_future(intake.beside(free.wait)) for _ in all_but_one]
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://service"
        ) as client:
            answers = asyncio.as_completed(
                [client.post("/v1/traces", content=LONG_BODY, headers=HEADERS) for _ in range(5)]
            )
            put_off = [await next(answers) for _ in range(4)]
            free.set()
            taken = await next(answers)
            await asyncio.gather(*held)
            return [*put_off, taken]

    *put_off, taken = asyncio.run(asyncio.wait_for(crowd(), PATIENCE_S))

    assert [answer.status_code for answer in put_off] == [429] * 4
    assert {answer.headers["retry-after"] for answer in put_off} == {str(RETRY_AFTER_S)}
    assert taken.status_code == 200
    assert telemetry.registry.get_sample_value(
        "latencytrace_service_posts_refused_total", {"code": "429"}
    ) == len(put_off)
