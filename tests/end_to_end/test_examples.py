"""The programs in `examples`, each started as its first lines say."""

import json
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.support.agent.receiving import ReceivedSpan, Receiver
from tests.support.model_apis.openai import openai
from tests.support.model_apis.server import WORDS, serving_models
from tests.support.servers.command_line import COMMAND, environment, latencytrace
from tests.support.servers.traced_server import traced_server
from tests.support.waiting import until

EXAMPLES = Path(__file__).parents[2] / "examples"
PATIENCE_S = 200  # for programs that start others, on a machine that does something else too
TOGETHER = 8


def run(receiver: Receiver, program: str, *arguments: str | Path, **variables: str) -> list[str]:
    """What an example prints; it ends by itself, and well."""
    # What a program has sent before it ends, it need not send in its last three seconds.
    often = {"OTEL_BSP_SCHEDULE_DELAY": "50"}
    settings = {"OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint, **often, **variables}
    done = subprocess.run(
        [*COMMAND, "run", "--", sys.executable, EXAMPLES / program, *arguments],
        env=environment(**settings),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def traces(
    receiver: Receiver, count: int, is_whole: Callable[[list[ReceivedSpan]], bool]
) -> list[list[ReceivedSpan]]:
    """So many traces, once each is there as a whole."""

    def found() -> list[list[ReceivedSpan]]:
        by_id: dict[str, list[ReceivedSpan]] = {}
        for span in receiver.spans:
            by_id.setdefault(span.trace_id, []).append(span)
        whole = [spans for spans in by_id.values() if is_whole(spans)]
        return whole if len(whole) >= count else []

    whole = until(found, lambda: [span.name for span in receiver.spans])
    assert len(whole) == count
    return whole


def has(*names: str) -> Callable[[list[ReceivedSpan]], bool]:
    """Whether a trace has spans of these names."""
    return lambda spans: set(names) <= {span.name for span in spans}


def test_in_the_batch_script_each_document_is_a_request(tmp_path: Path) -> None:
    with Receiver() as receiver:
        [said] = run(receiver, "batch_script/index.py", "--database", tmp_path / "passages.db")
        documents = int(said.split()[-2])
        whole = traces(receiver, documents, has("document", "preprocess", "INSERT passages"))

    assert documents > 100
    assert {span.stage for span in whole[0]} == {None, "preprocess", "database"}


def test_in_the_chain_a_request_is_one_trace_through_both_services() -> None:
    with Receiver() as receiver:
        said = run(receiver, "grpc_chain/chain.py")
        whole = traces(receiver, 6, has("rag.Front/Answer", "rag.Back/Search", "retrieve"))

    assert len(said) == 6
    for spans in whole:
        assert {span.resource["service.name"] for span in spans} == {"chain", "front", "back"}
        assert len([span for span in spans if span.parent_id is None]) == 1


def test_in_the_pipeline_a_document_is_one_trace_through_all_tasks(tmp_path: Path) -> None:
    tasks = ("pipeline.fetch", "pipeline.embed", "pipeline.store")
    with Receiver() as receiver:
        run(receiver, "celery_pipeline/pipeline.py", PIPELINE_FOLDER=str(tmp_path))
        whole = traces(receiver, 3, has("ingest", "embed", *tasks))

    assert sorted(path.stem for path in tmp_path.glob("*.json")) == ["decode", "prefill", "queue"]
    for spans in whole:
        workers = {span.resource["service.name"] for span in spans if span.name in tasks}
        assert workers == {"worker"}
        assert len([span for span in spans if span.stage == "queue"]) == len(tasks)


def test_the_own_batcher_shows_what_each_request_waited_for(tmp_path: Path) -> None:
    with (
        Receiver() as receiver,
        traced_server(
            receiver,
            tmp_path,
            *(sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES / "own_batcher")),
            *("app:app", "--port", "PORT"),
            ready="/healthz",
        ) as server,
        ThreadPoolExecutor(TOGETHER) as pool,
    ):

        def embed(number: int) -> list[float]:
            answer = server.client.post("/embed", json={"text": f"word {number}"})
            vector: list[float] = answer.raise_for_status().json()
            return vector

        vectors = list(pool.map(embed, range(TOGETHER)))

        def is_whole(spans: list[ReceivedSpan]) -> bool:
            return {"queue", "embed"} <= {span.stage for span in spans} and has("POST /embed")(
                spans
            )

        whole = traces(receiver, TOGETHER, is_whole)

    assert {len(vector) for vector in vectors} == {256}
    assert len({tuple(vector) for vector in vectors}) == TOGETHER
    assert len({span.trace_id for spans in whole for span in spans}) == TOGETHER


def test_the_streaming_server_shows_the_remote_model_and_its_first_token(tmp_path: Path) -> None:
    with (
        serving_models(openai) as api,
        Receiver() as receiver,
        traced_server(
            receiver,
            tmp_path,
            *(sys.executable, "-m", "uvicorn", "--app-dir", str(EXAMPLES / "streaming_llm")),
            *("app:app", "--port", "PORT"),
            ready="/healthz",
            OPENAI_BASE_URL=api.url,
            OPENAI_API_KEY="none",
        ) as server,
    ):
        answered = server.client.post("/chat", json={"question": "Where?"}).text
        refused = server.client.post("/chat", json={"question": "Which password?"}).text
        [[*spans]] = traces(
            receiver,
            1,
            lambda spans: (
                {"guardrail", "remote_model"} <= {span.stage for span in spans}
                and has("POST /chat")(spans)
            ),
        )

    assert answered == "".join(WORDS)
    assert refused == "I cannot talk about that."
    [model] = [span for span in spans if span.stage == "remote_model"]
    assert model.attributes["gen_ai.usage.output_tokens"] == len(WORDS)


def test_what_a_program_wrote_to_a_file_is_imported(tmp_path: Path) -> None:
    file, folder = tmp_path / "spans.pb", tmp_path / "traces"
    subprocess.run(
        [sys.executable, EXAMPLES / "offline_import" / "program.py", file],
        check=True,
        env=environment(),
        timeout=PATIENCE_S,
    )
    imported = latencytrace("import", file, "--data", folder, timeout_s=PATIENCE_S)
    assert imported.returncode == 0, imported.stderr
    read = latencytrace("requests", "--data", folder, "--json", timeout_s=PATIENCE_S)
    requests = json.loads(read.stdout)["requests"]

    assert [request["route"] for request in requests] == ["document"] * 3
    assert all({"tokenize", "embed"} <= request["ledger"].keys() for request in requests)


def test_what_engines_sent_is_attributed_to_their_stages(tmp_path: Path) -> None:
    stages = {
        "vllm": {"queue", "prefill", "decode"},
        "sglang": {"tokenize", "prefill", "decode"},
        "tgi": {"queue", "prefill", "decode"},
        "triton": {"queue", "forward"},
    }
    sent = EXAMPLES.parent / "tests" / "analysis" / "fixtures"
    folder, paths = tmp_path / "engines", [sent / f"{engine}.json" for engine in stages]
    imported = latencytrace("import", *paths, "--data", folder, timeout_s=PATIENCE_S)
    assert imported.returncode == 0, imported.stderr
    since = ("--since", "2020-01-01T00:00:00Z")
    read = latencytrace("requests", "--data", folder, *since, "--json", timeout_s=PATIENCE_S)
    requests = json.loads(read.stdout)["requests"]
    ledgers = [set(request["ledger"]) for request in requests]

    for wanted in stages.values():
        assert any(wanted <= ledger for ledger in ledgers), wanted
