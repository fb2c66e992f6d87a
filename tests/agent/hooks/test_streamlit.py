"""The hook of Streamlit: its own runs of a script, as its tests make them."""

import pytest
from opentelemetry.trace import StatusCode

from latencytrace.agent.hooks.streamlit import StreamlitHook
from latencytrace.model import semconv
from tests.support.agent.hooked import Spans

pytestmark = pytest.mark.filterwarnings("ignore")  # of how it is made
testing = pytest.importorskip("streamlit.testing.v1")
pytest.importorskip("streamlit.runtime.scriptrunner.script_runner")

HOOKS = (StreamlitHook,)


def test_each_run_is_one_request(spans: Spans) -> None:
    application = testing.AppTest.from_string(
        "import streamlit as st\nst.text_input('question', key='question')\n"
    )

    application.run(timeout=60)
    application.text_input(key="question").input("a secret").run(timeout=60)

    spans.wait_for(2)
    assert len(spans.all) == 2
    assert {name.partition(" ")[0] for name in spans.names} == {"run"}
    assert len({span.get_span_context().trace_id for span in spans.all}) == 2
    assert "secret" not in repr([dict(span.attributes) for span in spans.all])


def test_a_run_whose_script_raises_has_failed(spans: Spans) -> None:
    application = testing.AppTest.from_string("raise LookupError('a secret')\n")

    application.run(timeout=60)

    spans.wait_for(1)
    assert application.exception
    assert spans.only.status.status_code is StatusCode.ERROR
    assert spans.only.attributes[semconv.ERROR_TYPE] == "LookupError"
    assert "secret" not in repr(dict(spans.only.attributes))
