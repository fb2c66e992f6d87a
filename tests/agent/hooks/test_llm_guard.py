"""The hook of LLM Guard, with scanners that need no model."""

import pytest

from latencytrace.agent.hooks.guardrails import LlmGuardHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, attribute_text

pytestmark = pytest.mark.filterwarnings("ignore")  # of how it is made
llm_guard = pytest.importorskip("llm_guard", exc_type=ImportError)
inputs = pytest.importorskip("llm_guard.input_scanners")
outputs = pytest.importorskip("llm_guard.output_scanners")

HOOKS = (LlmGuardHook,)


def test_each_scanner_is_one_span_under_its_name(spans: Spans) -> None:
    scanners = [inputs.BanSubstrings(["bad"]), inputs.Regex([r"\d{9}"])]

    text, valid, _ = llm_guard.scan_prompt(scanners, "a secret")

    assert (text, set(valid.values())) == ("a secret", {True})
    assert (spans.names, set(spans.stages)) == (["BanSubstrings", "Regex"], {Stage.GUARDRAIL})
    assert "secret" not in attribute_text(spans)


def test_one_of_answers_is_one_span_though_it_asks_one_of_prompts(spans: Spans) -> None:
    outputs.BanSubstrings(["bad"]).scan("a prompt", "a secret")

    assert spans.names == ["BanSubstrings"]
