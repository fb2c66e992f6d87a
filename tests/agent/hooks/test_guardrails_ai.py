"""The hook of Guardrails AI, with a validator as its hub has them."""

import asyncio
from typing import Any

import pytest

from latencytrace.agent.hooks.guardrails import GuardrailsAiHook
from latencytrace.agent.hooks.threads import ThreadsHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, attribute_text, in_request

pytestmark = pytest.mark.filterwarnings("ignore")  # of how it is made
guardrails = pytest.importorskip("guardrails")
base = pytest.importorskip("guardrails.validator_base")

HOOKS = (GuardrailsAiHook, ThreadsHook)  # it checks in a thread


@base.register_validator(name="tests/short", data_type="string")
class Short(base.Validator):  # type: ignore[misc,name-defined]
    """Finds texts too long."""

    def _validate(self, value: Any, metadata: dict[str, Any]) -> Any:
        del metadata
        return base.PassResult() if len(value) < 20 else base.FailResult(error_message="long")


def test_a_validator_is_one_span_under_its_name(spans: Spans) -> None:
    guard = guardrails.Guard().use(Short(on_fail="noop"))
    found: list[Any] = []

    in_request(spans, lambda: found.append(guard.validate("a secret")))

    assert found[0].validation_passed
    assert [span.name for span in spans.of(Stage.GUARDRAIL)] == ["Short"]
    assert "secret" not in attribute_text(spans)


def test_one_that_is_awaited_is_too(spans: Spans) -> None:
    found = asyncio.run(Short(on_fail="noop").async_validate("a secret" * 9, {}))

    assert isinstance(found, base.FailResult)
    assert spans.of(Stage.GUARDRAIL)[-1].name == "Short"
