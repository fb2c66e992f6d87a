"""A program under other people's instrumentations: what it asks a model, and keeps, is secret.

    python -m tests.support.programs.instrumented_program OTLP_URL…

It speaks to a model of its own on loopback, with the real client, three times: under
OpenInference's instrumentation, under Traceloop's in their default settings and with their
decorators. It searches a real Chroma under Traceloop's, and prints the ids of its traces.
"""

import json
import sys
from collections.abc import Mapping

import chromadb
from chromadb.config import Settings
from openai import APIStatusError, OpenAI
from openai.types.shared_params import FunctionDefinition
from openinference.instrumentation import TracerProvider, using_attributes
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.chromadb import ChromaInstrumentor
from opentelemetry.instrumentation.openai import OpenAIInstrumentor as Traceloop
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from tests.support.secrets.content_keys import (
    ANSWER,
    ARGUMENT,
    FAULT,
    FILTER,
    METADATA,
    PASSAGE,
    PROMPT,
    QUESTION,
    SYSTEM,
    TEMPLATE,
    TOOL_RESULT,
)
from tests.support.servers.recording import Received, RecordingServer, Response

_COMPLETION = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "tiny",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {
                "role": "assistant",
                "content": f"Well: {ANSWER}.",
                "tool_calls": [
                    {
                        "id": "t1",
                        "type": "function",
                        "function": {"name": "look_up", "arguments": f'{{"what": "{ARGUMENT}"}}'},
                    }
                ],
            },
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
}


def answer(received: Received) -> Response:
    """Answer every chat alike, and refuse the model `broken`."""
    broken = json.loads(received.body)["model"] == "broken"
    said = {"error": {"message": FAULT}} if broken else _COMPLETION
    headers = {"Content-Type": "application/json"}
    return Response(400 if broken else 200, json.dumps(said).encode(), headers)


def chat(client: OpenAI) -> None:
    """One chat with a tool, and one that fails."""
    tool: FunctionDefinition = {
        "name": "look_up",
        "description": TEMPLATE,
        "parameters": {"type": "object"},
    }
    for name in ("tiny", "broken"):
        try:
            client.chat.completions.create(
                model=name,
                messages=[
                    {"role": "system", "content": SYSTEM},
                    {"role": "user", "content": f"Tell me: {PROMPT}"},
                ],
                tools=[{"type": "function", "function": tool}],
            )
        except APIStatusError:
            assert name == "broken"


def search() -> None:
    """Keep two passages and look for one."""
    collection = chromadb.EphemeralClient(Settings(anonymized_telemetry=False)).create_collection(
        "passages"
    )
    collection.add(
        ids=["1", "2"],
        documents=[PASSAGE, f"more {PASSAGE}"],
        embeddings=[[0.0, 1.0], [1.0, 0.0]],
        metadatas=[{"by": METADATA}, {"by": METADATA}],
    )
    collection.query(
        query_embeddings=[[0.0, 1.0]],
        n_results=1,
        where={"by": METADATA},
        where_document={"$contains": PASSAGE},
    )
    collection.get(where={"by": FILTER})


def main() -> None:
    """Do all of it, a trace each."""
    provider = TracerProvider(resource=Resource.create({"service.name": "instrumented"}))
    for url in sys.argv[1:]:
        exporter = OTLPSpanExporter(endpoint=f"{url}/v1/traces")
        provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("program")

    @tracer.tool(name="look_up", description=TEMPLATE)
    def look_up(what: str) -> str:
        return f"{TOOL_RESULT} of {what}"

    @tracer.chain
    def ask(question: str) -> Mapping[str, str]:
        look_up(ARGUMENT)
        return {"answer": ANSWER, "question": question}

    traces = []
    with (
        RecordingServer(answer) as model,
        OpenAI(base_url=f"{model.url}/v1", api_key="none", max_retries=0) as client,
    ):
        for instrumentor in (OpenInference(), Traceloop()):
            instrumentor.instrument(tracer_provider=provider)
            with tracer.start_as_current_span("POST /chat") as span:
                attributes = using_attributes(
                    metadata={"note": METADATA},
                    prompt_template=TEMPLATE,
                    prompt_template_variables={"v": QUESTION},
                )
                with attributes:
                    chat(client)
            instrumentor.uninstrument()
            traces.append(span.get_span_context().trace_id)
    with tracer.start_as_current_span("POST /ask") as span:
        ask(QUESTION)
    traces.append(span.get_span_context().trace_id)
    ChromaInstrumentor().instrument(tracer_provider=provider)
    with tracer.start_as_current_span("POST /search") as span:
        search()
    traces.append(span.get_span_context().trace_id)
    provider.shutdown()
    sys.stdout.writelines(f"{trace_id:032x}\n" for trace_id in traces)


if __name__ == "__main__":
    main()
