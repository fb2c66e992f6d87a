"""The page of GPUs in a real browser: what was read, and the work that requests had done there."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.support.builders.gpu_requests import request
from tests.support.builders.gpu_traffic import sample, span
from tests.support.builders.spans.otlp_messages import otlp
from tests.support.fakes.contracts import GPU
from tests.support.servers.browser import SCREENS, check_shown, check_sound, opened
from tests.support.servers.running_service import RunningService
from tests.support.simulation.simulated_gpu import SimulatedGpu
from tests.support.waiting import until

SECONDS = 20
STEP = 200  # samples a post


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One that nobody told of a GPU."""
    with RunningService(tmp_path_factory.mktemp("none") / "data") as running:
        yield running


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One that knows a GPU, and the work of prefill and decode on it."""
    with RunningService(tmp_path_factory.mktemp("gpu") / "data") as running:
        gpu = SimulatedGpu(3, start_ns=time.time_ns() - (SECONDS + 30) * 10**9)
        gpu.run(SECONDS)
        samples = [sample(window) for window in gpu.windows()]
        for at in range(0, len(samples), STEP):
            body = request(samples[at : at + STEP]).SerializeToString()
            assert running.post(body, path="/v1/metrics").is_success
        assert running.post(otlp(*(span(work) for work in gpu.work))).is_success

        def is_all_there() -> bool:
            stages: Any = running.ask("/gpu")["stages"]
            return len(gpu.work) == int(sum(row["spans"] for row in stages))

        until(is_all_there, running.said)
        yield running


@pytest.mark.parametrize("path", ["/gpu"], ids=["gpu"])
def test_the_page_is_sound(
    service: RunningService,
    browser: Browser,
    path: str,
    picture: Path | None,
) -> None:
    check_sound(browser, service.url, path, picture)


def test_the_page_without_a_gpu_is_sound(empty: RunningService, browser: Browser) -> None:
    check_sound(browser, empty.url, "/gpu")


def test_without_a_gpu_it_says_what_to_do(empty: RunningService, browser: Browser) -> None:
    with opened(browser, f"{empty.url}/gpu", java_script_enabled=False) as (page, _):
        expect(page.get_by_role("main")).to_contain_text("pip install 'latencytrace[gpu]'")


def test_what_was_read_last_can_be_read_on_a_phone(tmp_path: Path, browser: Browser) -> None:
    with (
        RunningService(tmp_path / "data") as running,
        opened(browser, f"{running.url}/gpu", **SCREENS["phone"]) as (page, _),
    ):

        def is_shown() -> bool:
            """Report once more, since what was read shows while it is new."""
            gpu = SimulatedGpu(3, start_ns=time.time_ns() - 10**9)
            gpu.run(1)
            body = request([sample(window) for window in gpu.windows()]).SerializeToString()
            assert running.post(body, path="/v1/metrics").is_success
            page.reload()
            return page.locator(".facts-table").count() > 0

        until(is_shown, running.said)
        check_shown(page)


def test_device_time_stands_beside_host_time_and_leads_to_the_requests(
    service: RunningService, browser: Browser
) -> None:
    with opened(browser, f"{service.url}/gpu") as (page, watched):
        work = page.get_by_role("group", name="Traced work")
        decode = work.get_by_role("row", name="decode")
        expect(decode).to_contain_text("memory bandwidth")
        expect(work.get_by_role("row", name="prefill")).to_contain_text("arithmetic")
        lanes = page.locator("svg.lanes")
        expect(lanes).to_contain_text("traced work")
        expect(lanes).to_contain_text("memory bandwidth")
        decode.get_by_role("link").click()

        expect(page.get_by_role("heading", level=1)).to_have_text("Requests")
        expect(page.locator(".chip", has_text="model tiny")).to_be_visible()
        assert watched.errors == []


def test_its_tables_and_its_picture_are_files(service: RunningService) -> None:
    tables = [service.get(f"/gpu?export={name}.csv").text for name in ("gpus", "work", "timeline")]
    picture = service.get(f"/gpu?export=timeline-{GPU.uuid}.svg").text

    assert [len(text.splitlines()) for text in tables] == [2, 3, 61]
    assert {"decode", "prefill"} <= set(tables[1].replace("\n", ",").split(","))
    assert ">traced work</text>" in picture


def test_the_api_has_it_over_time(service: RunningService) -> None:
    found: Any = service.ask("/gpu/timeline")
    (gpu,) = found["gpus"]
    stages: Any = service.ask("/gpu")["stages"]

    assert gpu["uuid"] == GPU.uuid
    assert sum(column["works"] for column in gpu["columns"]) == sum(row["spans"] for row in stages)
    device_ns = sum(column["device_ns"] for column in gpu["columns"])
    assert device_ns == pytest.approx(sum(row["device_ns"] for row in stages), rel=1e-6)
    assert any(column["bandwidth_ratio"] for column in gpu["columns"])
