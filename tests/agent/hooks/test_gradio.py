"""The hook of Gradio: its own server, queue and client."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from latencytrace.agent.hooks.gradio import GradioHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans

pytestmark = pytest.mark.filterwarnings("ignore")  # of how it is made
gradio = pytest.importorskip("gradio")
client = pytest.importorskip("gradio_client")

HOOKS = (GradioHook,)


def answered(work: Any, name: str, answer: str) -> Any:
    """What a client is answered to one event."""
    interface = gradio.Interface(work, "text", answer, api_name=name)
    _, url, _ = interface.launch(
        server_name="127.0.0.1", prevent_thread_lock=True, quiet=True, inbrowser=False
    )
    try:
        return client.Client(url, verbose=False).predict("a secret", api_name=f"/{name}")
    finally:
        interface.close()


def test_each_event_is_one_request(spans: Spans) -> None:
    answer = answered(len, "count", "number")

    assert answer == 8
    spans.wait_for(1)
    assert spans.names == ["event count"]
    assert int(str(spans.only.attributes[semconv.QUEUED_NS])) > 0
    assert "secret" not in repr([dict(span.attributes) for span in spans.all])


def test_an_event_that_streams_is_one_request_with_all_its_steps(spans: Spans) -> None:
    def chat(text: str) -> Iterator[str]:
        for length in range(1, len(text) + 1):
            yield text[:length]

    assert answered(chat, "chat", "text") == "a secret"

    spans.wait_for(1)
    assert spans.names == ["event chat"]
    assert spans.only.status.status_code is StatusCode.UNSET


def test_an_event_whose_function_raises_has_failed(spans: Spans) -> None:
    def broken(_: str) -> str:
        raise LookupError("a secret")

    with pytest.raises(Exception, match=r"."):
        answered(broken, "broken", "text")

    spans.wait_for(1)
    assert spans.names == ["event broken"]
    assert spans.only.status.status_code is StatusCode.ERROR
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in repr(dict(spans.only.attributes))
