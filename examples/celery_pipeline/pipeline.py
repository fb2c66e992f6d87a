"""A pipeline of Celery tasks: fetch, embed, store. A worker in a process of its own serves them.

latencytrace run -- python examples/celery_pipeline/pipeline.py

The broker is a folder, so that nothing else need run.
"""

import json
import os
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

from celery import Celery, chain
from celery.signals import worker_shutdown

import latencytrace

FOLDER = Path(os.environ.get("PIPELINE_FOLDER") or tempfile.mkdtemp(prefix="pipeline-"))
DOCUMENTS = ("queue", "prefill", "decode")
BUCKETS = 64
PATIENCE_S = 120
QUIET = ("--loglevel", "error", "--without-gossip", "--without-mingle", "--without-heartbeat")

app = Celery("pipeline", broker="filesystem://", backend=f"file://{FOLDER / 'results'}")
app.conf.broker_transport_options = {
    "data_folder_in": FOLDER / "messages",
    "data_folder_out": FOLDER / "messages",
    "control_folder": FOLDER / "control",
}
app.conf.worker_hijack_root_logger = False
for name in ("messages", "control", "results"):
    (FOLDER / name).mkdir(parents=True, exist_ok=True)


@app.task
def fetch(name: str) -> str:
    return f"{name} is a stage of serving a model, and may hold a request up"


@app.task
def embed(text: str) -> list[float]:
    with latencytrace.stage("embed"):
        vector = [0.0] * BUCKETS
        for word in text.split():
            vector[zlib.crc32(word.encode()) % BUCKETS] += 1.0
    return vector


@app.task
def store(vector: list[float], name: str) -> int:
    return (FOLDER / f"{name}.json").write_text(json.dumps(vector))


@worker_shutdown.connect
def send_last_spans(**_: object) -> None:
    latencytrace.flush(PATIENCE_S)


@latencytrace.request("ingest")
def ingest(name: str) -> int:
    """Send a document through the pipeline, and wait for it."""
    pipeline = chain(fetch.s(name), embed.s(), store.s(name))
    written: int = pipeline.delay().get(timeout=PATIENCE_S, interval=0.05)
    return written


def main() -> None:
    worker = subprocess.Popen(
        [sys.executable, "-m", "celery", "-A", "pipeline", "worker", "--pool", "solo", *QUIET],
        cwd=Path(__file__).parent,
        env={**os.environ, "PIPELINE_FOLDER": str(FOLDER), "OTEL_SERVICE_NAME": "worker"},
    )
    try:
        for name in DOCUMENTS:
            print(f"{name}: {ingest(name)} bytes", flush=True)
        latencytrace.flush(PATIENCE_S)
    finally:
        worker.terminate()
        worker.wait(PATIENCE_S)


if __name__ == "__main__":
    main()
