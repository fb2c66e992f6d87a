"""The hook of reading models and tokenizers with transformers, real ones from a folder."""

from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

from latencytrace.agent.hooks.transformers_inputs import TransformersLoadingHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans
from tests.support.models.tiny_chat import TinyChat

HOOKS = (TransformersLoadingHook,)


@pytest.fixture(scope="module")
def folder(tiny_chat: TinyChat, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model and its tokenizer as they are downloaded."""
    folder = tmp_path_factory.mktemp("models") / "tiny-chat"
    tiny_chat.model.save_pretrained(folder)
    tiny_chat.tokenizer.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", [AutoModelForCausalLM, LlamaForCausalLM, AutoTokenizer])
def test_what_is_read_is_one_load_through_whichever_class(
    spans: Spans, folder: Path, kind: type[LlamaForCausalLM]
) -> None:
    assert kind.from_pretrained(folder) is not None

    assert spans.only.attributes[semconv.STAGE] == Stage.LOAD
    assert spans.only.attributes[semconv.GEN_AI_REQUEST_MODEL] == "tiny-chat"


def test_what_a_request_reads_is_a_part_of_it(spans: Spans, folder: Path) -> None:
    with spans.recorder.tracer.start_as_current_span("request") as request:
        AutoModelForCausalLM.from_pretrained(folder)

    load = next(span for span in spans.all if span is not request)
    assert load.parent == request.get_span_context()


def test_what_cannot_be_read_is_the_programs_own_error(spans: Spans, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="no file named"):
        LlamaForCausalLM.from_pretrained(tmp_path, config=LlamaForCausalLM.config_class())

    assert spans.only.attributes[semconv.ERROR_TYPE] == "OSError"
