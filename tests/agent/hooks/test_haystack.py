"""The hook of Haystack, with its own components, store and tools."""

import asyncio
import os
from typing import Any

import pytest

from latencytrace.agent.hooks.haystack import HaystackHook
from latencytrace.model import Stage, semconv
from tests.support.agent.hooked import Spans, attribute_text

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before it is imported

haystack = pytest.importorskip("haystack")
builders = pytest.importorskip("haystack.components.builders")
preprocessors = pytest.importorskip("haystack.components.preprocessors")
retrievers = pytest.importorskip("haystack.components.retrievers.in_memory")
stores = pytest.importorskip("haystack.document_stores.in_memory")
tools = pytest.importorskip("haystack.tools")

HOOKS = (HaystackHook,)
ASKED = {"search": {"query": "a secret"}, "prompt": {"question": "a secret"}}


def pipeline_of() -> Any:
    """A search whose results go into a prompt."""
    store = stores.InMemoryDocumentStore()
    store.write_documents([haystack.Document(content="it is a secret")])
    pipeline = haystack.Pipeline()
    pipeline.add_component("search", retrievers.InMemoryBM25Retriever(store))
    template = "{{ question }} {% for each in documents %}{{ each.content }}{% endfor %}"
    told = builders.PromptBuilder(template, required_variables=["question", "documents"])
    pipeline.add_component("prompt", told)
    pipeline.connect("search.documents", "prompt.documents")
    return pipeline


def test_components_of_a_pipeline_are_spans_by_their_kind(spans: Spans) -> None:
    result = pipeline_of().run(ASKED)

    assert result["prompt"]["prompt"] == "a secret it is a secret"
    assert spans.names == ["InMemoryBM25Retriever", "PromptBuilder"]
    assert spans.stages == [Stage.RETRIEVE, Stage.PREPROCESS]
    assert "secret" not in attribute_text(spans)


def test_components_that_are_awaited_are_the_same(spans: Spans) -> None:
    result = asyncio.run(pipeline_of().run_async(ASKED))

    assert result["prompt"]["prompt"] == "a secret it is a secret"
    assert spans.names == ["InMemoryBM25Retriever", "PromptBuilder"]


def test_a_component_that_fails_ends_its_span_with_its_error(spans: Spans) -> None:
    pipeline = haystack.Pipeline()
    pipeline.add_component("split", preprocessors.DocumentSplitter())

    with pytest.raises(haystack.core.errors.PipelineRuntimeError):
        pipeline.run({"split": {"documents": [haystack.Document(content=None)]}})

    assert (spans.only.name, spans.stages) == ("DocumentSplitter", [Stage.PREPROCESS])
    assert spans.only.attributes[semconv.ERROR_TYPE] == "ValueError"


def test_a_component_without_a_stage_is_no_span(spans: Spans) -> None:
    @haystack.component
    class Own:
        """A component of the program's."""

        @haystack.component.output_types(text=str)  # type: ignore[untyped-decorator,unused-ignore]
        def run(self, text: str) -> dict[str, str]:
            """Give back what it was given."""
            return {"text": text}

    pipeline = haystack.Pipeline()
    pipeline.add_component("own", Own())

    assert pipeline.run({"own": {"text": "a secret"}}) == {"own": {"text": "a secret"}}
    assert spans.names == []


def test_a_tool_is_one_span_under_its_name(spans: Spans) -> None:
    def add(one: int, other: int) -> int:
        """Add two numbers."""
        return one + other

    assert tools.create_tool_from_function(add).invoke(one=1, other=2) == 3

    assert (spans.only.name, spans.stages) == ("execute_tool add", [Stage.TOOL])
