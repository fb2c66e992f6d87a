"""Documents of a cohort as a client of the API gets them: encoded, and as described."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pydantic import TypeAdapter

from latencytrace.model import Stage
from latencytrace.service.answers.breakdown_parts import AroundsDocument, StagesOverTimeDocument
from latencytrace.service.answers.documents import BreakdownDocument, RequestsDocument
from latencytrace.service.answers.overview_documents import HeatMapDocument, OverviewDocument
from latencytrace.service.answers.tail import TailDocument
from latencytrace.service.web.application import API, application
from tests.support.builders.made_requests import START_NS, made_request
from tests.support.fakes.listed_requests import store_of

REQUESTS = [
    replace(
        made_request(stages={Stage.QUEUE: 5, Stage.DECODE: 1000 + number}),
        trace_id=f"{number + 1:032x}",
        start_ns=START_NS + number,
    )
    for number in range(1000)
]


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/overview", OverviewDocument),
        ("/heatmap", HeatMapDocument),
        ("/breakdown", BreakdownDocument),
        ("/breakdown/quantiles", AroundsDocument),
        ("/breakdown/timeline", StagesOverTimeDocument),
        ("/tail", TailDocument),
        ("/requests", RequestsDocument),
    ],
)
def test_a_document_arrives_as_it_is_described(path: str, document: type, tmp_path: Path) -> None:
    served = application(store_of(*REQUESTS), lambda: START_NS + 10**9, tmp_path)

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get(API + path)

    answer = asyncio.run(ask())

    assert answer.status_code == 200
    TypeAdapter(document).validate_json(answer.content, strict=True)
    assert '"decode"' in answer.text or path == "/heatmap"
