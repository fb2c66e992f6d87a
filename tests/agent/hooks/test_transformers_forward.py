"""The hook of forward passes, with models of random weights."""

from typing import Any

import pytest
import torch
from transformers import BertConfig, BertForSequenceClassification, pipeline

from latencytrace.agent.hooks.torch import TorchHook
from latencytrace.agent.hooks.transformers import TransformersHook
from latencytrace.agent.hooks.transformers_forward import TransformersForwardHook
from latencytrace.agent.hooks.transformers_pipelines import TransformersPipelinesHook
from latencytrace.agent.timing.hook import HookOptions
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, hooked, in_request, interval_stages
from tests.support.models.tiny_chat import TinyChat
from tests.support.servers.command_line import python

HOOKS = (TransformersHook, TransformersForwardHook)
IDS = torch.ones((3, 5), dtype=torch.long)
TINY = BertConfig(
    vocab_size=30, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=8
)


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    classifier = BertForSequenceClassification(TINY).eval()
    classifier.name_or_path = "somewhere/tiny-bert"
    return classifier


def test_a_pass_within_a_request_is_one_span_whatever_models_are_inside(
    spans: Spans,
    model: Any,
) -> None:
    in_request(spans, lambda: model(input_ids=IDS))

    forward, request = spans.all
    assert (forward.name, forward.parent_id) == ("BertForSequenceClassification", request.span_id)
    assert dict(forward.attributes) == {
        semconv.STAGE: Stage.FORWARD,
        semconv.GEN_AI_REQUEST_MODEL: "tiny-bert",
        semconv.BATCH_SIZE: 3,
    }


def test_a_positional_input_and_its_answer_are_the_same(
    spans: Spans,
    model: Any,
) -> None:
    before = model(IDS).logits
    answers: list[torch.Tensor] = []

    in_request(spans, lambda: answers.append(model(IDS).logits))

    assert torch.equal(answers[0], before)
    assert spans.of(Stage.FORWARD)[0].attributes[semconv.BATCH_SIZE] == 3


def test_a_pass_outside_of_any_request_is_none_of_its_own(
    spans: Spans,
    model: Any,
) -> None:
    model(IDS)

    assert spans.all == []


def test_an_error_passes_through_and_fails_the_span(
    spans: Spans,
    model: Any,
) -> None:
    with pytest.raises(IndexError):
        in_request(spans, lambda: model(IDS + 99))

    assert spans.of(Stage.FORWARD)[0].attributes[semconv.ERROR_TYPE] == "IndexError"


def test_a_compiled_model_is_one_graph_and_one_span(
    spans: Spans,
    model: Any,
) -> None:
    torch.compiler.reset()
    compiled: Any = torch.compile(model, backend="eager", fullgraph=True)

    in_request(spans, lambda: compiled(input_ids=IDS))

    torch.compiler.reset()
    assert [span.name for span in spans.of(Stage.FORWARD)] == ["BertForSequenceClassification"]


def test_a_generation_keeps_its_stages_and_its_passes_are_no_spans(
    spans: Spans, tiny_chat: TinyChat
) -> None:
    in_request(
        spans,
        lambda: tiny_chat.model.generate(tiny_chat.prompt(), max_new_tokens=4, do_sample=False),
    )

    assert spans.of(Stage.FORWARD) == []
    assert not any("forward" in interval_stages(span) for span in spans.all)
    assert len(spans.of(Stage.DECODE)) == 1


def test_what_a_pipeline_times_is_not_timed_again(model: Any, tiny_chat: TinyChat) -> None:
    with hooked(TransformersPipelinesHook, TransformersForwardHook) as spans:
        classify = pipeline("text-classification", model=model, tokenizer=tiny_chat.tokenizer)
        in_request(spans, lambda: classify("where did"))

    assert [span.name for span in spans.of(Stage.FORWARD)] == ["forward"]


def test_a_model_that_is_named_as_well_is_one_span(model: Any) -> None:
    named = HookOptions(
        torch_modules=("transformers.models.bert.modeling_bert:BertForSequenceClassification",)
    )
    with hooked(TransformersForwardHook, TorchHook, options=named) as spans:
        in_request(spans, lambda: model(IDS))

    assert len(spans.of(Stage.FORWARD)) == 1


def test_a_loop_of_the_programs_own_has_a_bounded_number_of_spans(
    spans: Spans,
    model: Any,
) -> None:
    def loop() -> None:
        for _ in range(258):
            model(IDS[:1, :1])

    in_request(spans, loop)

    assert len(spans.of(Stage.FORWARD)) == 256


@pytest.mark.long
def test_a_program_that_compiles_without_transformers_does_not_get_it_imported() -> None:
    code = (
        "import sys, torch._dynamo.eval_frame\n"
        "from latencytrace.agent.hooks.transformers_forward import TransformersForwardHook\n"
        "from tests.support.agent.hooked import hooked\n"
        "with hooked(TransformersForwardHook):\n"
        "    print('transformers' in sys.modules)\n"
    )

    done = python("-c", code, check=True)

    assert done.stdout.split() == ["False"]
