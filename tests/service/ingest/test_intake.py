"""The intake of both receivers."""

import asyncio
from concurrent.futures import Future

import pytest

from latencytrace.errors import OverloadedError
from latencytrace.service.ingest.intake import Intake
from latencytrace.service.metrics.telemetry import Telemetry
from latencytrace.service.otlp.traces import PROTOBUF, CheckedRequest


def submit(_: CheckedRequest) -> Future[None]:
    raise AssertionError("nothing is submitted")


def refuse() -> None:
    raise OverloadedError("send again in a second")


def test_nothing_of_a_post_is_looked_at_while_there_is_no_room() -> None:
    intake = Intake(submit, Telemetry(), require_room=refuse)

    with pytest.raises(OverloadedError, match="again in a second"):
        asyncio.run(intake.check(b"no trace request", PROTOBUF, None))
