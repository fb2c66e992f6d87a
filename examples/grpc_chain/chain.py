"""Two services in a chain over gRPC: the front asks the back, each in a process of its own.

latencytrace run -- python examples/grpc_chain/chain.py
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc

import latencytrace

QUESTIONS = ("queue", "prefill", "decode", "first token", "batch", "cache")
TEXTS = (
    "A request waits in a queue until a batch has room for it.",
    "The prefill reads the whole prompt, and gives the first token.",
    "The decode gives one token after the other.",
    "A cache of prefixes spares a part of the prefill.",
)
PATIENCE_S = 120.0

Document = dict[str, Any]


def front(back: grpc.Channel) -> grpc.GenericRpcHandler:
    """Answers a question with what the back finds."""
    search = method(back, "/rag.Back/Search")

    def answer(asked: Document, _: grpc.ServicerContext) -> Document:
        with latencytrace.stage("preprocess"):
            words = asked["question"].lower().split()
        found = search({"words": words}, timeout=PATIENCE_S)
        with latencytrace.stage("postprocess"):
            return {"answer": " ".join(found["texts"]) or "Nothing is known of that."}

    return handler("rag.Front", "Answer", answer)


def back() -> grpc.GenericRpcHandler:
    """Finds texts by their words."""

    def search(asked: Document, _: grpc.ServicerContext) -> Document:
        with latencytrace.stage("retrieve"):
            wanted = set(asked["words"])
            return {"texts": [text for text in TEXTS if wanted & set(text.lower().split())]}

    return handler("rag.Back", "Search", search)


def handler(
    service: str, name: str, call: Callable[[Document, grpc.ServicerContext], Document]
) -> grpc.GenericRpcHandler:
    """A service with one method that takes and gives JSON."""
    one = grpc.unary_unary_rpc_method_handler(
        call, request_deserializer=json.loads, response_serializer=encoded
    )
    return grpc.method_handlers_generic_handler(service, {name: one})


def method(channel: grpc.Channel, path: str) -> Callable[..., Document]:
    return channel.unary_unary(path, request_serializer=encoded, response_deserializer=json.loads)


def encoded(document: object) -> bytes:
    return json.dumps(document).encode()


def serve(upstream: str | None) -> None:
    """Serve until standard input ends; the first line printed is the address."""
    with ThreadPoolExecutor() as pool:
        server = grpc.server(pool)
        channel = grpc.insecure_channel(upstream) if upstream else None
        server.add_generic_rpc_handlers((front(channel) if channel else back(),))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        print(f"127.0.0.1:{port}", flush=True)
        sys.stdin.read()
        server.stop(grace=1).wait()
        if channel:
            channel.close()
    latencytrace.flush(PATIENCE_S)


def started(name: str, *arguments: str) -> tuple[subprocess.Popen[str], str]:
    """A service of the chain in a process of its own, and its address."""
    process = subprocess.Popen(
        [sys.executable, Path(__file__), name, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OTEL_SERVICE_NAME": name},
    )
    return process, (process.stdout.readline().strip() if process.stdout else "")


def main() -> None:
    back_process, back_address = started("back")
    front_process, front_address = started("front", back_address)
    try:
        with grpc.insecure_channel(front_address) as channel:
            ask = method(channel, "/rag.Front/Answer")
            for question in QUESTIONS:
                answer = ask({"question": question}, timeout=PATIENCE_S)["answer"]
                print(f"{question}: {answer}", flush=True)
        latencytrace.flush(PATIENCE_S)
    finally:
        for process in (front_process, back_process):
            process.communicate(timeout=PATIENCE_S)  # ends its standard input, and so the service


if __name__ == "__main__":
    match sys.argv[1:]:
        case []:
            main()
        case [_, *upstream]:
            serve(upstream[0] if upstream else None)
