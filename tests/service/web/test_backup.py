"""The rows of a backup over the API: as much at once as there is memory for."""

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from latencytrace.service.net.problems import answer_with_problems
from latencytrace.service.sql import copying
from latencytrace.service.store import Store, open_store
from latencytrace.service.web.views.backup import backup_router
from tests.support.builders.spans.otlp_messages import columns, one_span, otlp
from tests.support.clickhouse.front import ClickHouseFront

SPANS = 30
MIB = 1024 * 1024


def asked(store: Store, path: str, parameters: Mapping[str, int | str]) -> httpx.Response:
    application = FastAPI()
    application.include_router(backup_router(store))
    answer_with_problems(application)

    async def answer() -> httpx.Response:
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.get(path, params=parameters)

    return asyncio.run(answer())


@pytest.fixture(params=["embedded", "server"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store with 30 MB of spans."""
    with ExitStack() as opened:
        address = "chdb"
        if request.param == "server":
            front = opened.enter_context(ClickHouseFront(tmp_path / "engine"))
            address = front.url("backup")
        store = opened.enter_context(closing(open_store(address, tmp_path / "data")))
        for number in range(SPANS):
            span = one_span(f"{number + 1:032x}", attributes={"text": f"{number:04}" * 250_000})
            store.insert([columns(otlp(span))])
        yield store


def test_one_question_does_not_read_more_than_memory_has_room_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pieces = asked(store, "/backup", {}).json()["pieces"]
    parameters = [{name: one[name] for name in one if name != "day"} for one in pieces]
    found = [asked(store, "/backup/rows", one) for one in parameters]
    monkeypatch.setattr(copying, "MOST_MEMORY", 12 * MIB)
    everything = {**parameters[0], "until_s": 2**32, "last_s": 2**32 - 1, "share": 0, "shares": 1}
    refused = asked(store, "/backup/rows", everything)

    assert sum(int.from_bytes(one.content[:8], "little") for one in found) == SPANS
    assert refused.status_code == 413
    assert "with more shares" in refused.json()["detail"]
