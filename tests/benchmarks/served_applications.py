"""Programs of libraries that people serve with, for `measure_served.py`.

Each does something of known length that its kind of server is for: waits, computes, batches.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PYTHON = "python"


@dataclass(frozen=True, kw_only=True)
class Application:
    """A program, and how it is asked."""

    needs: tuple[str, ...]  # distributions
    files: Mapping[str, str]
    command: tuple[str, ...]  # with `PORT` where its port belongs
    method: str = "POST"
    path: str = "/work"
    route: str = "POST /work"
    service: str = "application"  # whose requests these are
    clients: str = "served_clients.py"  # the program that asks
    body: object = field(default_factory=lambda: {"x": 21})
    ready: str = "/"  # is asked until it answers with
    is_ready: str = ""
    requests: int = 80
    variables: Mapping[str, str] = field(default_factory=dict)
    login: str = ""  # a path that gives a token to whoever asks; "": none is needed
    has_model: bool = False  # a chat model of random weights lies beside it, in `tiny-chat`


MOSEC = """
import time

from mosec import Runtime, Server, Worker


class Read(Worker):
    def forward(self, data):
        return data["x"]


class Double(Worker):
    def forward(self, data):
        time.sleep(0.02)
        return [2 * number for number in data]


class Write(Worker):
    def forward(self, data):
        return {"y": data}


if __name__ == "__main__":
    server = Server()
    server.append_worker(Read)
    server.append_worker(Double, max_batch_size=4, max_wait_time=5)
    server.append_worker(Write)
    server.run()
"""

MOSEC_ALONE = """
import time

from mosec import Server, Worker


class Double(Worker):
    def forward(self, data):
        time.sleep(0.02)
        return {"y": 2 * data["x"]}


if __name__ == "__main__":
    server = Server()
    server.append_worker(Double)
    server.run()
"""

MODEL = """
import os

import httpx

ADDRESS = os.environ["MODEL"] + "/chat/completions"
ASKED = {"model": "tiny-1", "messages": [{"role": "user", "content": "x"}]}
client = httpx.Client(trust_env=False)
async_client = httpx.AsyncClient(trust_env=False)


def ask_model():
    client.post(ADDRESS, json=ASKED)


async def ask_model_async():
    await async_client.post(ADDRESS, json=ASKED)
"""  # beside each program: a model that another process serves

SANIC = """
import asyncio

from model import ask_model_async
import sanic

app = sanic.Sanic("shop")
one_at_a_time = asyncio.Semaphore(1)


@app.post("/work")
async def work(request):
    async with one_at_a_time:
        await ask_model_async()
    return sanic.json({"y": 2 * request.json["x"]})
"""

LITESTAR = """
import asyncio

from model import ask_model_async
from litestar import Litestar, post

one_at_a_time = asyncio.Semaphore(1)


@post("/work")
async def work(data: dict[str, int]) -> dict[str, int]:
    async with one_at_a_time:
        await ask_model_async()
    return {"y": 2 * data["x"]}


app = Litestar([work])
"""

QUART = """
import asyncio

from model import ask_model_async
from quart import Quart, request

app = Quart(__name__)
one_at_a_time = asyncio.Semaphore(1)


@app.post("/work")
async def work():
    asked = await request.get_json()
    async with one_at_a_time:
        await ask_model_async()
    return {"y": 2 * asked["x"]}
"""

DJANGO = """
import json
import sqlite3
import time

import django
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.http import JsonResponse
from django.urls import path

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, SECRET_KEY="none")
django.setup()
memory = sqlite3.connect(":memory:", check_same_thread=False)


def work(request):
    asked = json.loads(request.body)
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)"
    memory.execute(numbers + " SELECT sum(i) FROM n").fetchone()
    return JsonResponse({"y": 2 * asked["x"]})


urlpatterns = [path("work", work)]
app = get_wsgi_application()
"""

FALCON = """
import threading

import falcon
from model import ask_model

one_at_a_time = threading.Semaphore(1)


class Work:
    def on_post(self, request, answer):
        asked = request.get_media()
        with one_at_a_time:
            ask_model()
        answer.media = {"y": 2 * asked["x"]}


app = falcon.App()
app.add_route("/work", Work())
"""

BOTTLE = """
import sqlite3
import sys

import bottle

memory = sqlite3.connect(":memory:", check_same_thread=False)


@bottle.post("/work")
def work():
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)"
    memory.execute(numbers + " SELECT sum(i) FROM n").fetchone()
    return {"y": 2 * bottle.request.json["x"]}


app = bottle.default_app()

if __name__ == "__main__":
    bottle.run(host="127.0.0.1", port=int(sys.argv[1]), quiet=True)
"""

TORNADO = """
import asyncio
import json
import sys

from model import ask_model_async
from tornado.web import Application, RequestHandler

one_at_a_time = asyncio.Semaphore(1)


class Work(RequestHandler):
    async def post(self):
        asked = json.loads(self.request.body)
        async with one_at_a_time:
            await ask_model_async()
        self.write({"y": 2 * asked["x"]})


async def main():
    Application([("/work", Work)]).listen(int(sys.argv[1]), "127.0.0.1")
    await asyncio.Event().wait()


asyncio.run(main())
"""

LITSERVE = """
import sys
import time

import litserve


class Api(litserve.LitAPI):
    def setup(self, device):
        pass

    def decode_request(self, request):
        return request["x"]

    def predict(self, x):
        time.sleep(0.02)
        return [2 * one for one in x]

    def encode_response(self, output):
        return {"y": output}


if __name__ == "__main__":
    api = Api(max_batch_size=4, batch_timeout=0.005, api_path="/work")
    server = litserve.LitServer(api, accelerator="cpu")
    server.run(host="127.0.0.1", port=int(sys.argv[1]), generate_client_file=False)
"""

ROBYN = """
import asyncio
import sys

from model import ask_model_async
from robyn import Robyn

app = Robyn(__file__)
one_at_a_time = asyncio.Semaphore(1)


@app.post("/work")
async def work(request):
    async with one_at_a_time:
        await ask_model_async()
    return {"y": 2 * request.json()["x"]}


app.start(host="127.0.0.1", port=int(sys.argv[1]))
"""

FASTCHAT = """
import subprocess
import sys
import time
from contextlib import suppress
from socket import create_connection, socket


def free_port():
    with socket() as bound:
        bound.bind(("127.0.0.1", 0))
        return str(bound.getsockname()[1])


def start(program, *arguments):
    command = [sys.executable, "-m", f"fastchat.serve.{program}", "--host", "127.0.0.1"]
    return subprocess.Popen([*command, *arguments])


controller, worker = free_port(), free_port()
programs = [
    start("controller", "--port", controller),
    start(
        *("model_worker", "--port", worker, "--device", "cpu", "--model-path", "tiny-chat"),
        *("--controller-address", f"http://127.0.0.1:{controller}"),
        *("--worker-address", f"http://127.0.0.1:{worker}", "--limit-worker-concurrency", "2"),
    ),
]
connected = None
while connected is None:  # a worker that is asked too early is forgotten for a while
    time.sleep(0.1)
    with suppress(OSError):
        connected = create_connection(("127.0.0.1", int(worker)))
api = ("--port", sys.argv[1], "--controller-address", f"http://127.0.0.1:{controller}")
programs.append(start("openai_api_server", *api))
try:
    programs[-1].wait()
finally:
    for program in programs:
        program.terminate()
"""

KSERVE = """
import sys
import time

import kserve


class Doubles(kserve.Model):
    def preprocess(self, payload, headers=None):
        return payload["instances"]

    def predict(self, payload, headers=None):
        time.sleep(0.02)
        return [2 * number for number in payload]

    def postprocess(self, result, headers=None):
        return {"predictions": result}


model = Doubles("doubles")
model.ready = True
kserve.ModelServer(http_port=int(sys.argv[1]), enable_grpc=False, workers=1).start([model])
"""

LANGGRAPH = """
from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from model import ask_model_async


class State(TypedDict):
    text: str


async def answer(state):
    await ask_model_async()
    return {"text": "it"}


graph = StateGraph(State)
graph.add_node("answer", answer)
graph.add_edge(START, "answer")
graph.add_edge("answer", END)
graph = graph.compile()
"""
LANGGRAPH_FILES = {
    "graph.py": LANGGRAPH,
    "model.py": MODEL,
    "langgraph.json": '{"dependencies": ["."], "graphs": {"agent": "./graph.py:graph"}}',
}

FEAST = """
import os
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas
from feast import Entity, FeatureStore, FeatureView, Field, FileSource
from feast.types import Int64

Path("feature_store.yaml").write_text(
    "{project: shop, registry: registry.db, provider: local,"
    " online_store: {type: sqlite, path: online.db}, entity_key_serialization_version: 3}"
)
now = datetime.now(UTC)
rows = pandas.DataFrame({"driver": [1, 2], "trips": [3, 4], "at": [now, now]})
rows.to_parquet("drivers.parquet")
driver = Entity(name="driver", join_keys=["driver"])
source = FileSource(path="drivers.parquet", timestamp_field="at")
drivers = FeatureView(
    name="drivers",
    entities=[driver],
    schema=[Field(name="driver", dtype=Int64), Field(name="trips", dtype=Int64)],
    source=source,
    ttl=timedelta(days=1),
)
store = FeatureStore(".")
store.apply([driver, drivers])
store.write_to_online_store("drivers", rows)
os.execvp("feast", ["feast", "serve", "--host", "127.0.0.1", "--port", sys.argv[1]])
"""

CHAINLIT = """
import chainlit
from model import ask_model_async


@chainlit.on_message
async def answer(message):
    await ask_model_async()
    reply = chainlit.Message(content="")
    for word in ("they ", "went ", "into ", "a ", "queue"):
        await reply.stream_token(word)
    await reply.send()
"""

MLFLOW = """
import os
import sys
import time

import mlflow


class Doubles(mlflow.pyfunc.PythonModel):
    def predict(self, model_input: list[int]) -> list[int]:
        time.sleep(0.02)
        return [2 * number for number in model_input]


mlflow.pyfunc.save_model("doubles", python_model=Doubles())
where = ("--host", "127.0.0.1", "--port", sys.argv[1], "--env-manager", "local")
os.execvp("mlflow", ["mlflow", "models", "serve", "--model-uri", "doubles", *where])
"""

MLFLOW_GATEWAY = """
import json
import os
import sys
from pathlib import Path

config = {"openai_api_key": "none", "openai_api_base": os.environ["MODEL"]}
model = {"provider": "openai", "name": "tiny-1", "config": config}
endpoint = {"name": "chat", "endpoint_type": "llm/v1/chat", "model": model}
Path("gateway.yaml").write_text(json.dumps({"endpoints": [endpoint]}))
where = ("--host", "127.0.0.1", "--port", sys.argv[1])
os.execvp("mlflow", ["mlflow", "gateway", "start", "--config-path", "gateway.yaml", *where])
"""

HAYHOOKS = """
import os

from hayhooks import BasePipelineWrapper
from haystack import Pipeline
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage
from haystack.utils import Secret


class PipelineWrapper(BasePipelineWrapper):
    def setup(self):
        key = Secret.from_token("none")
        self.pipeline = Pipeline()
        asked = ChatPromptBuilder([ChatMessage.from_user("{{ text }}?")])
        self.pipeline.add_component("prompt", asked)
        llm = OpenAIChatGenerator(api_key=key, model="tiny-1", api_base_url=os.environ["MODEL"])
        self.pipeline.add_component("llm", llm)
        self.pipeline.connect("prompt.prompt", "llm.messages")

    def run_api(self, text: str) -> str:
        return self.pipeline.run({"prompt": {"text": text}})["llm"]["replies"][0].text
"""

DRF = """
import django
import numpy
import onnxruntime
from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.urls import path
from onnx import TensorProto, helper, save

settings.configure(
    ALLOWED_HOSTS=["*"],
    INSTALLED_APPS=["rest_framework"],
    REST_FRAMEWORK={"UNAUTHENTICATED_USER": None, "DEFAULT_AUTHENTICATION_CLASSES": []},
    ROOT_URLCONF=__name__,
    SECRET_KEY="none",
)
django.setup()

from rest_framework import serializers
from rest_framework.response import Response
from rest_framework.views import APIView

wide = 1500
weights = numpy.random.default_rng(1).random((wide, wide), numpy.float32) / wide
given = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None, wide])
made = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None, wide])
inner = helper.make_tensor("w", TensorProto.FLOAT, weights.shape, weights.tobytes(), raw=True)
steps = [
    helper.make_node("MatMul", [f"v{number}" if number else "x", "w"], [f"v{number + 1}"])
    for number in range(40)
]
steps.append(helper.make_node("Identity", ["v40"], ["y"]))
graph = helper.make_graph(steps, "wide", [given], [made], [inner])
save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), "w.onnx")
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
session = onnxruntime.InferenceSession("w.onnx", options)


class Asked(serializers.Serializer):
    x = serializers.IntegerField()


class Work(APIView):
    def post(self, request):
        asked = Asked(data=request.data)
        asked.is_valid(raise_exception=True)
        row = numpy.full((1, wide), asked.validated_data["x"], numpy.float32)
        (found,) = session.run(["y"], {"x": row})
        return Response({"y": float(found[0, 0])})


urlpatterns = [path("work", Work.as_view())]
app = get_wsgi_application()
"""

BENTOML = """
import time

import bentoml


@bentoml.service(workers=1)
class Doubles:
    @bentoml.api(batchable=True, max_batch_size=4, max_latency_ms=2000)
    def work(self, x: list[int]) -> list[int]:
        time.sleep(0.02)
        return [2 * number for number in x]
"""

GRADIO = """
import sys

import gradio
from model import ask_model


def work(text):
    ask_model()
    return text + "!"


with gradio.Blocks() as page:
    asked, told = gradio.Textbox(), gradio.Textbox()
    asked.submit(work, asked, told, api_name="work")
page.queue(default_concurrency_limit=1)
page.launch(server_name="127.0.0.1", server_port=int(sys.argv[1]))
"""

EXPRESS = """
const express = require("express");
const http = require("http");

const app = express();
const agent = new http.Agent({ keepAlive: true });
app.use(express.json());
app.post("/work", (request, answer) => {
  const body = JSON.stringify(request.body);
  const length = Buffer.byteLength(body);
  const headers = { "content-type": "application/json", "content-length": length };
  const address = { host: "127.0.0.1", port: process.env.BEHIND, path: "/work" };
  const asked = http.request({ ...address, method: "POST", headers, agent }, (told) => {
    answer.status(told.statusCode).type("json");
    told.pipe(answer);
  });
  asked.on("error", () => answer.status(502).end());
  asked.end(body);
});
app.listen(process.env.PORT, "127.0.0.1");
"""

BEHIND_EXPRESS = """
import os
import socket
import subprocess
import sys

import uvicorn
from fastapi import FastAPI
from model import ask_model
from pydantic import BaseModel

app = FastAPI()


class Asked(BaseModel):
    x: int


@app.get("/")
def ready():
    return "yes"


@app.post("/work")
def work(asked: Asked):
    ask_model()
    return {"y": 2 * asked.x}


with socket.socket() as bound:
    bound.bind(("127.0.0.1", 0))
    port = bound.getsockname()[1]
traced = "@opentelemetry/auto-instrumentations-node/register"
gateway = subprocess.Popen(
    ["node", "--require", traced, "gateway.js"],
    env={**os.environ, "PORT": sys.argv[1], "BEHIND": str(port), "OTEL_SERVICE_NAME": "gateway"},
)
try:
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning")
finally:
    gateway.terminate()
"""

ADDRESS = ("--bind", "127.0.0.1:PORT")
UVICORN = (PYTHON, "-m", "uvicorn", "served:app", "--port", "PORT", "--log-level", "warning")
GUNICORN = (PYTHON, "-m", "gunicorn", *ADDRESS, "served:app")
GRANIAN = (PYTHON, "-m", "granian", "--host", "127.0.0.1", "--port", "PORT", "served:app")
WAITRESS = (PYTHON, "-m", "waitress", "--listen", "127.0.0.1:PORT", "--threads", "2", "served:app")
PROGRAM = (PYTHON, "served.py", "PORT")
MOSEC_SERVER = (
    *(PYTHON, "served.py", "--address", "127.0.0.1", "--port", "PORT"),
    *("--path", "ipc"),
)


def application(text: str, command: tuple[str, ...], *needs: str, **more: Any) -> Application:
    """A program in one file."""
    files = {"served.py": text, "model.py": MODEL}
    return Application(needs=needs, files=files, command=command, **more)


_INFERENCE = {"path": "/inference", "route": "POST /inference"}
APPLICATIONS = {
    "Mosec, three workers": application(MOSEC, MOSEC_SERVER, "mosec", **_INFERENCE),
    "Mosec, one worker": application(MOSEC_ALONE, MOSEC_SERVER, "mosec", **_INFERENCE),
    "Sanic": application(
        SANIC,
        (PYTHON, "-m", "sanic", "served:app", "--host", "127.0.0.1", "--port", "PORT"),
        "sanic",
    ),
    "Sanic, uvicorn": application(SANIC, UVICORN, "sanic", "uvicorn"),
    "Litestar, uvicorn": application(LITESTAR, UVICORN, "litestar", "uvicorn"),
    "Litestar, Granian": application(
        LITESTAR, (*GRANIAN, "--interface", "asgi"), "litestar", "granian"
    ),
    "Quart, hypercorn": application(
        QUART, (PYTHON, "-m", "hypercorn", *ADDRESS, "served:app"), "quart", "hypercorn"
    ),
    "Django, gunicorn sync": application(DJANGO, GUNICORN, "django", "gunicorn"),
    "Django, gunicorn gthread": application(
        DJANGO, (*GUNICORN, "--threads", "2"), "django", "gunicorn"
    ),
    "Django, waitress": application(DJANGO, WAITRESS, "django", "waitress"),
    "Django, Granian": application(DJANGO, (*GRANIAN, "--interface", "wsgi"), "django", "granian"),
    "Falcon, gunicorn gthread": application(
        FALCON, (*GUNICORN, "--threads", "8"), "falcon", "gunicorn"
    ),
    "Bottle, its own server": application(BOTTLE, PROGRAM, "bottle"),
    "Bottle, waitress": application(BOTTLE, WAITRESS, "bottle", "waitress"),
    "Tornado": application(TORNADO, PROGRAM, "tornado"),
    "LitServe": application(LITSERVE, PROGRAM, "litserve"),
    "Robyn": application(ROBYN, PROGRAM, "robyn"),
    "FastChat": Application(
        needs=("fschat", "transformers"),
        files={"served.py": FASTCHAT},
        command=PROGRAM,
        path="/v1/chat/completions",
        route="POST /v1/chat/completions",
        body={
            "model": "tiny-chat",
            "messages": [{"role": "user", "content": "where did the milliseconds go"}],
            "max_tokens": 24,
            "temperature": 0,
        },
        ready="/v1/models",
        is_ready='"tiny-chat"',
        has_model=True,
        variables={"OMP_NUM_THREADS": "1"},
        requests=24,
    ),
    "KServe": application(
        KSERVE,
        PROGRAM,
        "kserve",
        path="/v1/models/doubles:predict",
        route="POST /v1/models/{model_name}:predict",
        body={"instances": [1, 2]},
    ),
    "LangGraph's server": Application(
        needs=("langgraph-api",),
        files=LANGGRAPH_FILES,
        command=(
            *("langgraph", "dev", "--host", "127.0.0.1", "--port", "PORT"),
            *("--no-browser", "--no-reload", "--n-jobs-per-worker", "2"),
        ),
        path="/runs/wait",
        route="POST /runs/wait",
        body={"assistant_id": "agent", "input": {"text": "x"}},
        ready="/ok",
        is_ready="true",
        requests=40,
    ),
    "Feast": application(
        FEAST,
        PROGRAM,
        "feast",
        path="/get-online-features",
        route="POST /get-online-features",
        body={"features": ["drivers:trips"], "entities": {"driver": [1, 2]}},
        ready="/health",
    ),
    "Chainlit": application(
        CHAINLIT,
        ("chainlit", "run", "served.py", "--headless", "--host", "127.0.0.1", "--port", "PORT"),
        "chainlit",
        clients="chainlit_clients.py",
        route="socket.io /client_message",
    ),
    "MLflow, scoring server": application(
        MLFLOW,
        PROGRAM,
        "mlflow",
        path="/invocations",
        route="POST /invocations",
        body={"inputs": [21]},
        ready="/ping",
    ),
    "MLflow, gateway": application(
        MLFLOW_GATEWAY,
        PROGRAM,
        "mlflow",
        path="/gateway/chat/invocations",
        route="POST /gateway/chat/invocations",
        body={"messages": [{"role": "user", "content": "where did they go"}]},
        ready="/health",
    ),
    "Hayhooks": Application(
        needs=("hayhooks", "haystack-ai"),
        files={"pipelines/ask/pipeline_wrapper.py": HAYHOOKS},
        command=(
            *("hayhooks", "run", "--host", "127.0.0.1", "--port", "PORT"),
            *("--pipelines-dir", "pipelines"),
        ),
        path="/ask/run",
        route="POST /ask/run",
        body={"text": "where did they go"},
        ready="/status",
        is_ready="ask",
        variables={"HAYSTACK_TELEMETRY_ENABLED": "False"},
    ),
    "Django with DRF and ONNX, gunicorn": application(
        DRF, (*GUNICORN, "--threads", "2"), "django", "djangorestframework", "onnxruntime"
    ),
    "BentoML": application(
        BENTOML,
        ("bentoml", "serve", "served:Doubles", "--host", "127.0.0.1", "--port", "PORT"),
        "bentoml",
        body={"x": [21]},
        ready="/readyz",
        variables={"BENTOML_DO_NOT_TRACK": "True"},
    ),
    "Gradio": application(
        GRADIO,
        PROGRAM,
        "gradio",
        method="QUEUE",
        path="/gradio_api/call/work",
        route="event work",
        body={"data": ["where did they go"]},
        ready="/config",
        variables={"GRADIO_ANALYTICS_ENABLED": "False"},
    ),
    "Express before FastAPI": Application(
        needs=("fastapi",),
        files={"served.py": BEHIND_EXPRESS, "gateway.js": EXPRESS, "model.py": MODEL},
        command=PROGRAM,
        service="gateway",
    ),
    "Open WebUI": Application(
        needs=("open-webui",),
        files={},
        command=("open-webui", "serve", "--host", "127.0.0.1", "--port", "PORT"),
        path="/api/chat/completions",
        route="POST /api/chat/completions",
        body={
            "model": "tiny-1",
            "stream": True,
            "messages": [{"role": "user", "content": "where did they go"}],
        },
        ready="/health",
        is_ready="true",
        login="/api/v1/auths/signin",
        variables={
            "WEBUI_AUTH": "False",
            "ENABLE_OLLAMA_API": "False",
            "OPENAI_API_KEY": "none",
            "RAG_EMBEDDING_ENGINE": "openai",
            "OFFLINE_MODE": "True",
            "HF_HUB_OFFLINE": "1",
            "DATA_DIR": ".",
        },
        requests=40,
    ),
}
