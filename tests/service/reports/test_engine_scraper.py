"""Engines read again and again: what is shown of them, and for how long."""

import logging
import socket
import time
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from latencytrace.errors import ScrapeError, SettingsError
from latencytrace.service.reports.engine_scraper import (
    MAX_BYTES,
    MAX_MODELS,
    SILENT_NS,
    EngineScraper,
    checked_engines,
    fetch,
)
from tests.support.fakes.contracts import FakeClock
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.recording import RecordingServer, Response

TEXTS = Path(__file__).parents[1] / "engine_texts"
URL = "http://127.0.0.1:8000/metrics"
VLLM = {"engine": "vllm", "target": "127.0.0.1:8000", "model": "smollm2"}
RERANKER = {"engine": "triton", "target": "127.0.0.1:8000", "model": "reranker"}


class Engine:
    """An engine whose answer a test decides."""

    def __init__(self, text: str = "", *urls: str) -> None:
        self.text = text
        self.why_not = ""
        self.clock = FakeClock()
        self.scraper = EngineScraper(urls or (URL,), self.answer, self.clock)
        self.registry = CollectorRegistry()
        self.registry.register(self.scraper)

    def answer(self, _: str) -> str:
        """Its answer."""
        if self.why_not:
            raise ScrapeError(self.why_not)
        return self.text

    def value(self, name: str, **labels: str) -> float | None:
        """A metric of the service."""
        return self.registry.get_sample_value(f"latencytrace_{name}", labels)


def text_of(name: str) -> str:
    return (TEXTS / f"{name}.txt").read_text("utf-8")


def test_readings_are_shown_by_engine_target_and_model() -> None:
    engine = Engine(text_of("vllm"))

    engine.scraper.step()

    assert engine.value("engine_waiting_requests", **VLLM) == 3
    assert engine.value("engine_prefix_cache_hits_total", **VLLM) == 256
    assert engine.value("engine_up", target="127.0.0.1:8000") == 1


def test_before_the_first_reading_nothing_is_shown() -> None:
    engine = Engine(text_of("vllm"))

    assert engine.value("engine_up", target="127.0.0.1:8000") == 0
    assert engine.value("engine_waiting_requests", **VLLM) is None


def test_an_engine_that_is_gone_is_counted_said_once_and_soon_not_shown(
    caplog: pytest.LogCaptureFixture,
) -> None:
    engine = Engine(text_of("vllm"))
    engine.scraper.step()
    engine.why_not = "it does not answer: refused"
    engine.scraper.step()
    still = engine.value("engine_waiting_requests", **VLLM)
    engine.clock.move_s(SILENT_NS / 1e9 + 1)

    engine.scraper.step()

    assert still == 3
    assert engine.value("engine_waiting_requests", **VLLM) is None
    assert engine.value("engine_up", target="127.0.0.1:8000") == 0
    assert engine.value("service_engine_scrapes_failed_total", target="127.0.0.1:8000") == 2
    assert [record.levelno for record in caplog.records] == [logging.WARNING]


def test_the_batch_size_is_the_mean_since_the_reading_before() -> None:
    engine = Engine(text_of("triton"))
    engine.scraper.step()
    first = engine.value("engine_batch_size", **RERANKER)
    before = 'nv_inference_count{model="reranker",version="1"} 900'
    engine.text = engine.text.replace(before, before.replace("900", "960"))
    before = 'nv_inference_exec_count{model="reranker",version="1"} 300'
    engine.text = engine.text.replace(before, before.replace("300", "310"))

    engine.scraper.step()

    assert first is None
    assert engine.value("engine_batch_size", **RERANKER) == 6


def test_an_engine_that_was_restarted_has_no_batch_size_for_a_moment() -> None:
    engine = Engine(text_of("triton"))
    engine.scraper.step()
    engine.text = engine.text.replace(" 900", " 8").replace(" 300", " 4")

    engine.scraper.step()

    assert engine.value("engine_batch_size", **RERANKER) is None


def test_the_share_of_accepted_drafts_is_that_since_the_reading_before() -> None:
    counts = """
vllm:num_requests_running{{model_name="smollm2"}} 2.0
vllm:spec_decode_num_draft_tokens_total{{model_name="smollm2"}} {drafted}
vllm:spec_decode_num_accepted_tokens_total{{model_name="smollm2"}} {accepted}
"""
    engine = Engine(counts.format(drafted=1000, accepted=900))
    engine.scraper.step()
    first = engine.value("engine_speculative_acceptance_ratio", **VLLM)
    engine.text = counts.format(drafted=1200, accepted=950)

    engine.scraper.step()

    assert first is None
    assert engine.value("engine_speculative_acceptance_ratio", **VLLM) == 0.25
    assert engine.value("engine_speculative_drafted_tokens_total", **VLLM) == 1200


def test_models_beyond_the_bound_are_counted() -> None:
    lines = (f'vllm:num_requests_waiting{{model_name="m{n}"}} 1' for n in range(MAX_MODELS + 3))
    engine = Engine("\n".join(lines))

    engine.scraper.step()

    shown = [sample for family in engine.registry.collect() for sample in family.samples]
    waiting = [sample for sample in shown if sample.name == "latencytrace_engine_waiting_requests"]
    assert len(waiting) == MAX_MODELS
    assert engine.value("service_engine_models_left_out") == 3


def test_two_engines_on_one_port_are_told_apart() -> None:
    engine = Engine(text_of("tgi"), "http://h:1/a/metrics", "http://h:1/b/metrics")

    engine.scraper.step()

    assert engine.value("engine_up", target="h:1/a/metrics") == 1
    assert engine.value("engine_up", target="h:1/b/metrics") == 1


def test_addresses_need_no_path_and_count_once() -> None:
    named = ["http://h:8000", "http://h:8000/", "http://h:8000/metrics", "https://h/v2/metrics"]

    assert checked_engines(named) == ("http://h:8000/metrics", "https://h/v2/metrics")


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("h:8000", "does not begin with http"),
        ("file:///etc/passwd", "does not begin with http"),
        ("http://", "and a host"),
        ("http://h:99999", "has a port"),
        ("http://[::1", "has brackets"),
        ("http://me:secret@h:8000", "h is named with a password"),
    ],
    ids=["no scheme", "a file", "no host", "a port too high", "half a host", "a password"],
)
def test_what_is_no_address_is_refused(address: str, why: str) -> None:
    with pytest.raises(SettingsError, match=why) as refused:
        checked_engines([address])

    assert "secret" not in str(refused.value)


def test_too_many_engines_are_refused() -> None:
    with pytest.raises(SettingsError, match="65 engines"):
        checked_engines([f"http://h:{port}" for port in range(1, 66)])


def dripping() -> Iterator[bytes]:
    while True:
        yield b"#\n"
        time.sleep(0.02)


def test_what_an_engine_answers_is_fetched() -> None:
    with RecordingServer(Response(body=b"a 1\n")) as engine:
        assert fetch(f"{engine.url}/metrics") == "a 1\n"


@pytest.mark.parametrize(
    ("answer", "why", "timeout_s"),
    [
        (Response(302, headers={"Location": NOWHERE}), "answers 302", 10),
        (Response(503), "answers 503", 10),
        (Response(body=dripping()), "too slowly", 2),
        (Response(body=repeat(b"#" * (1 << 20), (MAX_BYTES >> 20) + 1)), "longer than 16 MiB", 10),
    ],
    ids=["redirected", "refused", "dripping", "endless"],
)
def test_what_is_no_good_answer_is_a_reason(answer: Response, why: str, timeout_s: float) -> None:
    with RecordingServer(answer) as engine, pytest.raises(ScrapeError, match=why):
        fetch(f"{engine.url}/metrics", timeout_s)


def test_an_engine_that_takes_the_call_and_is_silent_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/metrics"
        with pytest.raises(ScrapeError, match="timed out"):
            fetch(url, 0.1)


def test_an_engine_that_is_not_there_is_a_reason() -> None:
    with pytest.raises(ScrapeError, match="does not answer"):
        fetch(f"{NOWHERE}/metrics")
