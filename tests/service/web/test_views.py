"""Documents of a cohort as a client of the API gets them: encoded, and as described."""

import asyncio
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from pydantic import TypeAdapter

from latencytrace.model import Stage
from latencytrace.service.answers.breakdown_parts import AroundsDocument, StagesOverTimeDocument
from latencytrace.service.answers.documents import (
    BreakdownDocument,
    RequestsDocument,
    RouteBreakdownsDocument,
)
from latencytrace.service.answers.overview_documents import HeatMapDocument, OverviewDocument
from latencytrace.service.answers.tail_documents import TailDocument
from latencytrace.service.storage.baselines import NAME, Baselines
from latencytrace.service.store import Store
from latencytrace.service.web.application import API, application
from latencytrace.service.web.context import ServiceContext
from latencytrace.service.web.queries import CAME
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


def context_of(store: Store, folder: Path) -> ServiceContext:
    baselines = Baselines(folder / NAME)
    return ServiceContext(store=store, baselines=baselines, now_ns=lambda: START_NS + 10**9)


def answered(method: str, path: str, folder: Path, body: bytes = b"") -> httpx.Response:
    served = application(context_of(store_of(*REQUESTS), folder))

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(served)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            headers = {"content-type": "application/json"} if body else {}
            return await client.request(method, API + path, content=body, headers=headers)

    return asyncio.run(ask())


@pytest.mark.parametrize(
    ("path", "document"),
    [
        ("/overview", OverviewDocument),
        ("/heatmap", HeatMapDocument),
        ("/breakdown", BreakdownDocument),
        ("/breakdown/routes", RouteBreakdownsDocument),
        ("/breakdown/quantiles", AroundsDocument),
        ("/breakdown/timeline", StagesOverTimeDocument),
        ("/tail", TailDocument),
        ("/requests", RequestsDocument),
    ],
)
def test_a_document_arrives_as_it_is_described(path: str, document: type, tmp_path: Path) -> None:
    answer = answered("GET", path, tmp_path)

    assert answer.status_code == 200
    TypeAdapter(document).validate_json(answer.content, strict=True)
    assert '"decode"' in answer.text or path == "/heatmap"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("beginning=" + "0" * 29 + "3E", [f"{0x3E0 + last:032x}" for last in range(9)]),
        ("beginning=" + "0" * 29 + "2a&limit=2", [f"{0x2A0 + last:032x}" for last in range(2)]),
    ],
)
def test_traces_are_named_by_the_beginning_of_their_ids(
    asked: str, found: list[str], tmp_path: Path
) -> None:
    answer = answered("GET", f"/traces?{asked}", tmp_path)

    assert answer.json() == {"trace_ids": found}


def test_an_address_without_parameters_refuses_any(tmp_path: Path) -> None:
    misspelt = answered("GET", "/services?foo=1", tmp_path)

    assert misspelt.status_code == 400
    assert misspelt.json()["detail"] == "'foo' is no parameter here: there is none"


@pytest.mark.parametrize("path", ["/services", "/breakdown"])
def test_the_second_try_of_a_link_from_elsewhere_is_answered(path: str, tmp_path: Path) -> None:
    assert answered("GET", f"{path}?{CAME}=1", tmp_path).status_code == 200


def test_a_body_that_is_no_json_is_told_from_a_wrong_one(tmp_path: Path) -> None:
    torn = answered("PUT", "/baselines/main", tmp_path, b'{"cohort": ')
    wrong = answered("PUT", "/baselines/main", tmp_path, b'{"cohort": 7}')

    assert (torn.status_code, wrong.status_code) == (400, 400)
    assert torn.json()["detail"].startswith("the body is not JSON, at character 11: ")
    assert wrong.json()["detail"].startswith("cohort: ")


def test_every_address_is_described_with_the_errors_that_it_answers(tmp_path: Path) -> None:
    described = application(context_of(store_of(), tmp_path)).openapi()
    operations = [one for methods in described["paths"].values() for one in methods.values()]

    assert operations
    for operation in operations:
        assert operation["responses"].keys() == {"200", "default"}
        assert operation["responses"]["default"]["content"].keys() == {"application/problem+json"}
    assert "HTTPValidationError" not in described["components"]["schemas"]


def test_a_baseline_of_a_misspelled_cohort_is_refused(tmp_path: Path) -> None:
    body = b'{"cohort": "service=rag", "chort": "version=1"}'

    answer = answered("PUT", "/baselines/before", tmp_path, body)

    assert answer.status_code == 400
    assert "chort" in answer.text
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/breakdown?service=a&service=b", "service is given 2 times"),
        ("/requests?limit=1&limit=2", "limit is given 2 times"),
        ("/compare?a=version%3D1&b=", "a side is empty"),
        ("/compare?a=&b=version%3D1", "a side is empty"),
    ],
)
def test_a_question_that_means_two_things_or_none_is_refused(
    path: str, said: str, tmp_path: Path
) -> None:
    answer = answered("GET", path, tmp_path)

    assert answer.status_code == 400
    assert said in answer.json()["detail"]


def test_conditions_may_be_given_as_often_as_one_likes(tmp_path: Path) -> None:
    assert answered("GET", "/breakdown?where=a%3D1&where=b%3D2", tmp_path).status_code == 200
