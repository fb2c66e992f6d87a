"""The hook of JAX: what is compiled in a request, and where it waits."""

from typing import Any

import pytest

from latencytrace.agent.hooks.runtimes import JaxHook
from latencytrace.model import Stage
from tests.support.agent.hooked import Spans, in_request

jax = pytest.importorskip("jax")
numpy = pytest.importorskip("numpy")

HOOKS = (JaxHook,)


def test_a_first_call_is_loading_and_a_wait_a_forward_pass(spans: Spans) -> None:
    double = jax.jit(lambda given: given * 2 + 1)
    given = numpy.ones((3,), dtype="float32")
    found: list[Any] = []

    in_request(spans, lambda: found.append(jax.block_until_ready(double(given))))

    assert found[0].tolist() == [3, 3, 3]
    assert spans.of(Stage.LOAD)
    assert {span.name for span in spans.of(Stage.LOAD)} == {"compile"}
    assert [span.name for span in spans.of(Stage.FORWARD)] == ["wait for results"]
    before = len(spans.of(Stage.LOAD))

    in_request(spans, lambda: jax.block_until_ready(double(given)))

    assert len(spans.of(Stage.LOAD)) == before  # it is compiled
    assert len(spans.of(Stage.FORWARD)) == 2


def test_outside_of_requests_nothing_is_timed(spans: Spans) -> None:
    numpy.asarray(jax.jit(lambda given: given + 3)(1.0))

    assert spans.all == []
