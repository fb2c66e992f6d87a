"""Each parameter of each page and of the API, given wrongly: what is wrong is said in a sentence.

The parameters are those that the API describes itself by, and those that pages name when they
are asked for another one.
"""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import urlencode

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from prometheus_client import CollectorRegistry

from latencytrace.service.cohort import REPEATED
from latencytrace.service.storage.baselines import Baselines
from latencytrace.service.web.context import ServiceContext
from latencytrace.service.web.pages.assets import Assets
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Renderer
from latencytrace.service.web.pages.routes import add_pages
from tests.support.builders.seen_traffic import chat
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.fakes.listed_requests import store_of
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

TRACE: Final = f"{21:032x}"
EXACT: Final = {"service", "route", "model", "version", "instance", "by"}  # any text may be one
NEEDED: Final = {  # values of parameters that an answer needs
    "by": "service", "beginning": "0", "stage": "decode", "faster": "0.5", "a": "since=1h",
    "b": "since=1h", "table": "requests", "since_s": "0", "until_s": "1", "first_s": "0",
    "last_s": "1", "start": "0",
}  # fmt: skip
ODD: Final = (
    "many", "-1", "9" * 40, "1e999", "nan", "0x10", "\0", "\U0001f4a5", "'", "%", "a=b", "..",
    "5..1", "null", "[]", "baseline:", "baseline:../x", "x" * 5_000,
)  # fmt: skip
PAGE: Final = {"accept": "text/html"}
SAYS: Final = 'class="problem"'

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]  # hundreds of answers each

Query = list[tuple[str, str]]


class Address(NamedTuple):
    """Where to ask, what has to be said there, and one of the parameters."""

    path: str
    needed: Mapping[str, str]
    parameter: str

    def asked(self, *values: str) -> str:
        """The address with the parameter given as often as there are values."""
        others = {name: one for name, one in self.needed.items() if name != self.parameter}
        query: Query = [*others.items(), *((self.parameter, value) for value in values)]
        return f"{self.path}?{urlencode(query)}"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("parameters") / "data") as running:
        assert running.post(otlp(*chat(TRACE, time.time_ns() - 60 * 10**9))).is_success
        until(lambda: running.ask("/breakdown")["requests"] == 1, running.said)
        yield running


@pytest.fixture(scope="module")
def of_api(service: RunningService) -> list[Address]:
    """The parameters of the API, as it describes itself."""
    described = service.get("/openapi.json").json()["paths"]
    found = []
    for path, methods in described.items():
        given = methods.get("get", {}).get("parameters", [])
        names = [one["name"] for one in given if one["in"] == "query"]
        needed = {name: NEEDED[name] for name in names if name in NEEDED}
        if "faster" in needed:
            names.remove("at_most_ms")  # one of the two
        found += [Address(real(service, path), needed, name) for name in names]
    assert {one.path for one in found} >= {"/api/v1/breakdown", "/api/v1/backup/rows"}
    return found


@pytest.fixture(scope="module")
def of_pages(service: RunningService, tmp_path_factory: pytest.TempPathFactory) -> list[Address]:
    """The parameters of pages: those of their functions, and those that they name."""
    found = []
    for route in page_routes(tmp_path_factory.mktemp("pages")):
        path = real(service, route.path)
        refused = service.get(f"{path}?no.parameter=1", {"accept": "*/*"})
        use = re.search(r"is no parameter here: use ([\w, ]+)", refused.text)
        own = [one.alias for one in route.dependant.query_params]
        names = dict.fromkeys([*own, *(use[1].split(", ") if use else ()), "export"])
        needed = {name: NEEDED[name] for name in names if name in NEEDED and name != "by"}
        found += [Address(path, needed, name) for name in names]
    assert len({one.path for one in found}) > 10
    return found


def page_routes(folder: Path) -> list[APIRoute]:
    """The addresses of all pages, but for files that pages ask for."""
    app, assets = FastAPI(), Assets()
    context = ServiceContext(store=store_of(), baselines=Baselines(folder), now_ns=lambda: 0)
    parts = Parts(
        service=context,
        renderer=Renderer(assets),
        objectives=lambda: {"objectives": [], "maintenance": []},
        objectives_over_time=lambda: {"objectives": []},
        alerts=lambda: {"alerts": []},
        past_alerts=list,
    )
    add_pages(app, parts, assets, CollectorRegistry(), lambda: None)
    added = (getattr(one, "original_router", None) for one in app.routes)
    every = (route for one in added if one is not None for route in one.routes)
    routes = [route for route in every if isinstance(route, APIRoute)]
    return [route for route in routes if not route.path.startswith("/static")]


def real(service: RunningService, path: str) -> str:
    """An address with the ids of what there is."""
    span_id = str(service.request(TRACE)["span_id"])
    return path.format(
        trace_id=TRACE, span_id=span_id, name="none", profile_id="none", fingerprint="none"
    )


Values = Callable[[list[Address]], Iterator[tuple[Address, tuple[str, ...]]]]


def wrong(
    service: RunningService,
    addresses: list[Address],
    values: Values,
    fault: Callable[[Address, RunningService, str], str | None],
) -> list[str]:
    """What is wrong with the answers to all of them."""
    found = []
    for address, given in values(addresses):
        asked = address.asked(*given)
        said = fault(address, service, asked)
        if said is not None:
            found.append(f"{asked[:200]}: {said}")
    return found


def each(value: str) -> Values:
    return lambda addresses: ((address, (value,)) for address in addresses)


def spread(*values: str) -> Values:
    """Each parameter with each value, of the addresses that have it one after the other."""

    def found(addresses: list[Address]) -> Iterator[tuple[Address, tuple[str, ...]]]:
        by_name: dict[str, list[Address]] = {}
        for address in addresses:
            by_name.setdefault(address.parameter, []).append(address)
        for number, having in enumerate(by_name.values()):
            for place, value in enumerate(values, number):
                yield having[place % len(having)], (value,)

    return found


def twice(addresses: list[Address]) -> Iterator[tuple[Address, tuple[str, ...]]]:
    for address in addresses:
        if address.parameter not in REPEATED:
            yield address, (NEEDED.get(address.parameter, "1h"), "2h")


def refusal(service: RunningService, asked: str) -> tuple[int, str]:
    """The status of an answer, and what is wrong with how it says so."""
    answer = service.get(asked)
    if answer.status_code == 200:
        return 200, ""
    detail = answer.json()["detail"] if answer.status_code < 500 else ""
    is_sentence = detail and "\n" not in detail and "pydantic" not in detail
    return answer.status_code, "" if is_sentence else answer.text[:300]


def not_refused(_: Address, service: RunningService, asked: str) -> str | None:
    status, said = refusal(service, asked)
    return None if status == 400 and not said else f"{status} {said}"


def no_sentence(_: Address, service: RunningService, asked: str) -> str | None:
    status, said = refusal(service, asked)
    return None if status in {200, 400, 404, 409, 413} and not said else f"{status} {said}"


def blank_passes(address: Address, service: RunningService, asked: str) -> str | None:
    status, said = refusal(service, asked)
    may_pass = address.parameter in EXACT
    return None if (may_pass or status != 200) and not said else f"{status} {said}"


def silent_page(address: Address, service: RunningService, asked: str) -> str | None:
    answer = service.get(asked, PAGE)
    if "text/html" not in answer.headers.get("content-type", ""):  # a file, or another address
        return None if answer.status_code in {200, 303} else f"{answer.status_code}"
    says = SAYS in answer.text
    # That no request has an attribute is known when the page has begun.
    is_late = address.parameter == "by" and answer.status_code == 200
    is_right = answer.status_code in {200, 400, 404} and (
        is_late or says == (answer.status_code != 200)
    )
    return None if is_right else f"{answer.status_code}, says: {says}"


def silent_twice(_: Address, service: RunningService, asked: str) -> str | None:
    answer = service.get(asked, PAGE)
    return None if answer.status_code == 400 and SAYS in answer.text else str(answer.status_code)


def test_an_empty_parameter_of_the_api_is_refused(
    service: RunningService, of_api: list[Address]
) -> None:
    assert wrong(service, of_api, each(""), not_refused) == []


def test_a_blank_one_is_refused_unless_it_may_be_a_name(
    service: RunningService, of_api: list[Address]
) -> None:
    assert wrong(service, of_api, each("  "), blank_passes) == []


def test_one_given_twice_is_refused(service: RunningService, of_api: list[Address]) -> None:
    assert wrong(service, of_api, twice, not_refused) == []


def test_odd_values_are_answered_or_refused_in_a_sentence(
    service: RunningService, of_api: list[Address]
) -> None:
    assert wrong(service, of_api, spread(*ODD), no_sentence) == []


def test_an_empty_or_blank_parameter_of_a_page_is_as_if_left_out_or_is_refused(
    service: RunningService, of_pages: list[Address]
) -> None:
    assert wrong(service, of_pages, spread("", "  "), silent_page) == []


def test_one_of_a_page_that_is_given_twice_is_refused(
    service: RunningService, of_pages: list[Address]
) -> None:
    assert wrong(service, of_pages, twice, silent_twice) == []


def test_a_page_says_what_is_wrong_with_odd_values(
    service: RunningService, of_pages: list[Address]
) -> None:
    assert wrong(service, of_pages, spread(*ODD[:6]), silent_page) == []


@pytest.mark.parametrize("side", ["a", "b"])
def test_a_comparison_with_one_side_says_that_the_other_is_empty(
    service: RunningService, side: str
) -> None:
    answer = service.get(f"/compare?{side}=since%3D1h&service=rag", PAGE)

    assert answer.status_code == 400
    assert "a side is empty" in answer.text
