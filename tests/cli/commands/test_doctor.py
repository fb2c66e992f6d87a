"""`latencytrace doctor`: real interpreters, real addresses, and what it says of them."""

import json
import os
import re
import socket
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from rich.console import Console

from latencytrace.cli.commands.doctor import show_findings
from latencytrace.cli.doctor_checks.service import service_findings
from latencytrace.model import Stage
from latencytrace.service.answers.findings.finding import Finding, Verdict
from latencytrace.settings import agent_settings
from tests.support.agent.receiving import Receiver
from tests.support.builders.spans.otlp_messages import child, one_span, otlp
from tests.support.few import few
from tests.support.servers.command_line import environment, latencytrace, listening
from tests.support.servers.nowhere import NOWHERE
from tests.support.servers.ports import free_port
from tests.support.servers.recording import RecordingServer
from tests.support.servers.running_service import RunningService
from tests.support.waiting import until

NO_RECEIVER = {"OTEL_EXPORTER_OTLP_ENDPOINT": NOWHERE}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with RunningService(tmp_path_factory.mktemp("doctor") / "data") as running:
        yield running


def at(service: RunningService) -> dict[str, str]:
    return {"LATENCYTRACE_URL": service.url, "OTEL_EXPORTER_OTLP_ENDPOINT": service.otlp}


def found(*arguments: str | Path, **env: str) -> dict[str, str | None]:
    """What is wrong, and what mends it."""
    said = latencytrace("doctor", "--json", *arguments, env=environment(**{**NO_RECEIVER, **env}))
    document = json.loads(said.stdout)
    wrong = {f["what"]: f["fix"] for f in document["findings"] if f["verdict"] == "wrong"}
    assert document["wrong"] == len(wrong)
    assert said.returncode == (1 if wrong else 0), said.stderr
    return wrong


def test_where_nothing_is_wrong_it_says_so_and_ends_with_0(service: RunningService) -> None:
    said = latencytrace("doctor", "--all", env=environment(**at(service)))

    assert said.returncode == 0, said.stdout
    assert said.stdout.endswith("\nNo problems found.\n")
    assert f"answers at {service.url} and is ready" in said.stdout
    assert f"spans are taken at {service.otlp}/v1/traces" in said.stdout
    (hooks,) = re.findall("✓ each applies once the program imports its library: (.*)", said.stdout)
    assert {"httpx", "fastapi", "threads"} <= {each.split(" ")[0] for each in hooks.split(", ")}


def test_what_is_about_one_thing_stands_together() -> None:
    found = [
        Finding(about=about, verdict=Verdict.FINE, what=what, fix=None)
        for about, what in (("service", "answers"), ("agents", "send"), ("service", "takes"))
    ]
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        show_findings(found, console, everything=True)

    assert captured.get().startswith("service\n  ✓ answers\n  ✓ takes\nagents\n  ✓ send\n")


def test_what_is_wrong_comes_first_each_once_and_nothing_else_unless_asked() -> None:
    old = Finding(about="hooks", verdict=Verdict.WRONG, what="too old", fix="pip install it")
    fine = replace(old, verdict=Verdict.FINE, what="applies", fix=None)
    note = replace(old, about="service", verdict=Verdict.NOTE, what="none runs", fix=None)
    console = Console(width=80, color_system=None)
    with console.capture() as captured:
        show_findings([fine, note, old, fine, old], console, everything=False)

    assert captured.get().splitlines() == [
        "hooks",
        "  ✗ too old",
        "    → pip install it",
        "1 note, 1 check passed; all of it: latencytrace doctor --all",
        "",
        "1 problem found.",
    ]


def test_hooks_of_which_nothing_is_wrong_are_one_line_and_absent_libraries_none(
    tmp_path: Path,
) -> None:
    path = installed(
        tmp_path, "my-hooks", "1.0", "[latencytrace.hook]\nabsent = absent_hook:Hook\n"
    )
    (tmp_path / "absent_hook.py").write_text(
        "import latencytrace.agent.timing.hook as contract\n"
        "class Hook(contract.Hook):\n"
        "    requires = ('no-such-distribution >= 1.0',)\n"
    )

    said = latencytrace("doctor", "--json", env=environment(**NO_RECEIVER, PYTHONPATH=path)).stdout

    assert len([f for f in json.loads(said)["findings"] if f["about"] == "hooks"]) == 1
    assert "no-such-distribution" not in said


def test_hooks_that_the_settings_leave_out_are_one_line() -> None:
    said = latencytrace(
        "doctor", "--all", env=environment(**NO_RECEIVER, LATENCYTRACE_HOOKS="httpx")
    ).stdout

    assert re.search(r"✓ each applies once the program imports its library: httpx [^,]*", said)
    assert re.search(r"· left out by LATENCYTRACE_HOOKS: aio_pika, .*wsgi", said)


def test_an_instrumentor_that_a_hook_leaves_its_calls_to_doubles_nothing(tmp_path: Path) -> None:
    theirs = "[opentelemetry_instrumentor]\nopenai = somewhere:Instrumentor\n"
    path = installed(tmp_path, "opentelemetry-instrumentation-openai", "9.70", theirs)

    said = latencytrace("doctor", "--all", env=environment(**NO_RECEIVER, PYTHONPATH=path)).stdout

    assert (
        "opentelemetry-instrumentation-openai 9.70: where the program starts it, its span is used"
    ) in said


def test_a_loopback_service_that_run_would_start_is_no_fault() -> None:
    url = f"http://127.0.0.1:{free_port()}"

    assert found(LATENCYTRACE_URL=url) == {}


@pytest.mark.parametrize("receiver", [False, True], ids=["nothing", "a receiver"])
def test_an_address_that_is_named_and_does_not_answer_is_one(*, receiver: bool) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    with listening() as endpoint:
        to = {"OTEL_EXPORTER_OTLP_ENDPOINT": endpoint} if receiver else {}
        wrong = found("--url", url, **to)

    assert wrong[f"none answers at {url}"] == "latencytrace serve, or export LATENCYTRACE_URL=…"


@pytest.mark.long
def test_a_port_that_somebody_else_has_taken_is_one() -> None:
    with listening() as url:
        (what, fix), *more = found(LATENCYTRACE_URL=url).items()

    assert what == f"something that is no latencytrace service has taken {url}"
    assert fix is not None
    assert fix.startswith("export LATENCYTRACE_URL=http://127.0.0.1:")
    assert not more


@pytest.mark.long
def test_a_far_service_that_does_not_answer_is_one() -> None:
    far = f"http://localhost.localdomain:{free_port()}"

    assert f"none answers at {far}" in found(LATENCYTRACE_URL=far)


def test_a_receiver_that_is_elsewhere_than_the_service_loses_spans(
    service: RunningService,
) -> None:
    (what, fix), *more = found(LATENCYTRACE_URL=service.url).items()

    assert what.startswith(f"nothing takes spans at {NOWHERE}/v1/traces: ")
    assert fix == f"export OTEL_EXPORTER_OTLP_ENDPOINT={service.otlp}"
    assert not more


def test_who_names_no_receiver_may_send_no_spans_from_here(service: RunningService) -> None:
    unnamed = agent_settings(environ={})._replace(traces_url=f"{NOWHERE}/v1/traces")

    *_, last = service_findings(service.url, None, unnamed)

    assert last.verdict is Verdict.NOTE
    assert last.what.startswith(f"nothing takes spans at {NOWHERE}/v1/traces: ")
    assert last.what.endswith(f"; the service takes them at {service.otlp}")


def test_spans_that_go_to_another_receiver_than_the_services_are_noted(
    service: RunningService,
) -> None:
    with Receiver() as other:
        said = latencytrace(
            "doctor",
            "--all",
            env=environment(
                LATENCYTRACE_URL=service.url, OTEL_EXPORTER_OTLP_ENDPOINT=other.endpoint
            ),
        )

    assert said.returncode == 0
    assert (
        f"· spans go to {other.endpoint}/v1/traces; the service takes them at {service.otlp}"
        in said.stdout
    )


def test_a_receiver_that_takes_no_traces_is_told_by_its_answer(service: RunningService) -> None:
    wrong = found(LATENCYTRACE_URL=service.url, OTEL_EXPORTER_OTLP_ENDPOINT=service.url)

    assert list(wrong) == [
        f"{service.url}/v1/traces answers 404 Not Found: spans are refused",
    ]


@pytest.mark.long
def test_a_receiver_over_grpc_is_asked_as_the_agent_would(service: RunningService) -> None:
    spoken = {**at(service), "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    right = {**spoken, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{service.otlp_grpc}"}
    said = latencytrace("doctor", "--all", env=environment(**right))
    wrong = found(**spoken)

    assert f"spans are taken at http://{service.otlp_grpc}, over gRPC" in said.stdout
    assert said.returncode == 0
    assert [what for what in wrong if what.startswith("nothing takes spans over gRPC")]


@pytest.mark.long
def test_something_else_at_the_services_address_is_no_service() -> None:
    with RecordingServer() as other:
        wrong = found(LATENCYTRACE_URL=other.url)

    assert f"what answers at {other.url} is no latencytrace service" in wrong


def test_what_the_service_refused_is_counted_with_its_fix(tmp_path: Path) -> None:
    with RunningService(tmp_path / "data") as service:
        service.post(b"rubbish")
        service.post(b"", path="/v1/logs")

        wrong = found(**at(service))

    assert wrong == {
        "posts that were not OTLP, 400: 1": (
            "the answer gave the sender the reason; look at what posts to this address"
        ),
        "posts of another kind than traces and metrics, 404: 1": (
            "in the senders: export OTEL_LOGS_EXPORTER=none"
        ),
    }


@pytest.mark.long
def test_a_sender_that_ends_half_way_through_a_post_is_no_fault(tmp_path: Path) -> None:
    with RunningService(tmp_path / "data") as service:
        parts = urlsplit(service.otlp)
        with socket.create_connection((parts.hostname, parts.port)) as sender:
            sender.sendall(
                b"POST /v1/traces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n"
                b"Content-Type: application/x-protobuf\r\n\r\nabc"
            )
        until(
            lambda: service.metric("latencytrace_service_posts_refused_total") or None,
            service.said,
        )
        counted = service.get("/metrics").text

        wrong = found(**at(service))

    assert 'latencytrace_service_posts_refused_total{code="408"} 1.0' in counted
    assert wrong == {}


@pytest.mark.long
def test_what_is_damaged_on_the_services_disk_is_named(tmp_path: Path) -> None:
    journal = tmp_path / "data" / "journal"
    journal.mkdir(parents=True)
    (journal / "000000000042.spans").write_bytes(b"no block of spans")
    (tmp_path / "data" / "lock").touch()  # so that the folder is known for a data folder
    with RunningService(tmp_path / "data") as service:
        wrong = found(**at(service))

    assert list(wrong) == [
        "the journal's file 000000000042.spans is damaged in 1 places and was set aside"
    ]


def test_what_holds_an_event_loop_while_requests_wait_is_named(tmp_path: Path) -> None:
    now_ns = time.time_ns()
    served = one_span("a" * 32, "b" * 16, start_ns=now_ns, end_ns=now_ns + 100_000_000)
    wait = replace(
        child(served, "c" * 16, Stage.QUEUE, 0, 64), name="event loop held by GET /slow"
    )
    with RunningService(tmp_path / "data") as service:
        assert service.post(otlp(served, wait)).is_success
        service.request(served.trace_id)

        said = {finding.what for finding in service_findings(service.url, None, None)}

    assert "requests wait 64.0 % of their time unread: event loop held by GET /slow" in said


@pytest.mark.long
def test_a_token_that_is_missing_is_named(tmp_path: Path) -> None:
    asking = ("--listen", "0.0.0.0:0", "--otlp-http", "0.0.0.0:0")
    with RunningService(tmp_path / "data", *asking, env={"LATENCYTRACE_TOKEN": "sesame"}) as it:
        wrong = found(**at(it))
        shown = found(
            **at(it),
            LATENCYTRACE_TOKEN="sesame",
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20sesame",
        )

    assert list(wrong) == [
        f"the service at {it.url} asks for a token",
        f"{it.otlp}/v1/traces asks for a token: spans are refused",
    ]
    assert shown == {}


DROPPING = """
import os, latencytrace
for _ in range(50):
    with latencytrace.stage("rerank"):
        pass
latencytrace.flush(60)
print(os.getpid())
"""


def test_an_agent_that_dropped_spans_is_named_with_its_process(tmp_path: Path) -> None:
    few = {"OTEL_BSP_MAX_QUEUE_SIZE": "5", "OTEL_BSP_SCHEDULE_DELAY": "60000"}
    with RunningService(tmp_path / "data") as service:
        ran = latencytrace(
            *("run", "--service", "tiny", "--", sys.executable, "-c", DROPPING),
            env=environment(**at(service), **few),
        )

        (said,) = found(**at(service))

    assert said.startswith("tiny (instance ")
    assert said.endswith(f", process {ran.stdout.strip()}): spans dropped: 45")


@pytest.mark.parametrize(
    ("variable", "value", "what", "fix"),
    few(
        3,
        [
            (
                "LATENCYTRACE_DISABLED",
                "1",
                "tracing is switched off",
                "unset LATENCYTRACE_DISABLED",
            ),
            ("OTEL_SDK_DISABLED", "true", "tracing is switched off", "unset OTEL_SDK_DISABLED"),
            (
                "OTEL_TRACES_SAMPLER",
                "always_off",
                "nothing is recorded: OTEL_TRACES_SAMPLER=always_off",
                "unset OTEL_TRACES_SAMPLER",
            ),
            (
                "OTEL_TRACES_SAMPLER",
                "parentbased_always_off",
                "nothing of traces that begin here is recorded: OTEL_TRACES_SAMPLER=parentbased",
                "unset OTEL_TRACES_SAMPLER",
            ),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "localhost:4318",
                "the agent stays off: endpoint 'localhost:4318' must begin with http://",
                "correct the variable that is named",
            ),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                f"{NOWHERE}/v1/traces",
                f"OTEL_EXPORTER_OTLP_ENDPOINT={NOWHERE}/v1/traces is a base address",
                f"export OTEL_EXPORTER_OTLP_ENDPOINT={NOWHERE}",
            ),
            (
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
                NOWHERE,
                f"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={NOWHERE} is used as it is",
                f"export OTEL_EXPORTER_OTLP_TRACES_ENDPOINT={NOWHERE}/v1/traces",
            ),
            (
                "OTEL_EXPORTER_OTLP_PROTOCOL",
                "http/json",
                "OTEL_EXPORTER_OTLP_PROTOCOL=http/json, but",
                "export OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf",
            ),
            (
                "OTEL_EXPORTER_OTLP_ENDPOINT",
                "http://127.0.0.1:4317",
                "OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4317 is the usual port of OTLP",
                "export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318",
            ),
            (
                "PYTHONPATH",
                "/x/opentelemetry/instrumentation/auto_instrumentation",
                "PYTHONPATH starts opentelemetry-instrument",
                "take the entry that ends in auto_instrumentation out of PYTHONPATH",
            ),
            (
                "LATENCYTRACE_HOOKS",
                "httpx,htttpx",
                "LATENCYTRACE_HOOKS names 'htttpx', and no hook is called so",
                "choose among ",
            ),
        ],
    ),
)
def test_a_variable_that_makes_no_sense_is_named_with_its_fix(
    variable: str, value: str, what: str, fix: str
) -> None:
    wrong = found(**{variable: value})

    (said, mended), *more = wrong.items()
    assert said.startswith(what)
    assert mended is not None
    assert mended.startswith(fix)
    assert not more


def installed(folder: Path, name: str, version: str, entry_points: str = "") -> str:
    """A distribution as installers leave it behind; returns what to put on PYTHONPATH."""
    metadata = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    (metadata / "entry_points.txt").write_text(entry_points)
    return str(folder)


def test_a_library_that_is_too_old_is_refused_with_the_version_to_install(tmp_path: Path) -> None:
    path = installed(tmp_path, "qdrant-client", "1.2.0")

    assert found(PYTHONPATH=path) == {
        "qdrant: not applied, qdrant-client 1.2.0 is older than 1.10": (
            "pip install 'qdrant-client>=1.10'"
        )
    }


def test_a_hook_that_cannot_be_loaded_names_its_package(tmp_path: Path) -> None:
    broken = "[latencytrace.hook]\nmine = no_such_module:MyHook\n"
    path = installed(tmp_path, "my-hooks", "1.0", broken)

    assert found(PYTHONPATH=path) == {
        "mine: cannot be loaded: No module named 'no_such_module'": "install my-hooks again"
    }


def test_instrumentors_and_providers_of_others_are_noted(tmp_path: Path) -> None:
    contrib = "[opentelemetry_instrumentor]\nhttpx = somewhere:Instrumentor\n"
    path = installed(tmp_path, "opentelemetry-instrumentation-httpx", "0.70", contrib)
    installed(tmp_path, "logfire", "5.2")

    said = latencytrace("doctor", "--all", env=environment(**NO_RECEIVER, PYTHONPATH=path)).stdout

    assert (
        "· opentelemetry-instrumentation-httpx 0.70: where the program starts it, its span is "
        "used (hook httpx)"
    ) in said
    assert "· logfire 5.2: where the program starts it, its tracer provider makes the" in said


def named(folder: Path, source: str, **env: str) -> list[tuple[str, str | None]]:
    """What is said of the hooks of a program and of others that trace it, but for what is fine."""
    (folder / "app.py").write_text(f"{source}\nraise SystemExit('never run')\n")
    said = latencytrace(
        *("doctor", "--json", "--", sys.executable, "app.py"),
        env=environment(**{**NO_RECEIVER, **env}),
        cwd=folder,
    )
    return [
        (f["what"], f["fix"])
        for f in json.loads(said.stdout)["findings"]
        if f["about"] in {"hooks", "other instrumentation"} and f["verdict"] != "fine"
    ]


def provides(folder: Path, module: str, distribution: str, version: str) -> str:
    """A distribution with one module; returns what to put on PYTHONPATH."""
    path = installed(folder, distribution, version)
    metadata = folder / f"{distribution.replace('-', '_')}-{version}.dist-info"
    (metadata / "top_level.txt").write_text(module)
    (folder / f"{module}.py").write_text("raise SystemExit('never run')")
    return path


@pytest.mark.long
def test_of_a_program_only_libraries_that_it_imports_are_named(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    provides(packages, "qdrant_client", "qdrant-client", "1.2.0")
    path = provides(packages, "diffusers", "diffusers", "0.42.1")

    assert named(tmp_path, "import httpx", PYTHONPATH=path) == [
        (
            (
                "qdrant: not applied, qdrant-client 1.2.0 is older than 1.10; "
                "the program's source does not import it"
            ),
            "pip install 'qdrant-client>=1.10'",
        )
    ]
    assert found("--", sys.executable, tmp_path / "app.py", PYTHONPATH=path) == {}
    assert named(tmp_path, "import qdrant_client", PYTHONPATH=path) == [
        (
            "qdrant: not applied, qdrant-client 1.2.0 is older than 1.10",
            "pip install 'qdrant-client>=1.10'",
        )
    ]


def test_a_library_without_a_hook_is_named_with_what_to_do_the_shortest_first(
    tmp_path: Path,
) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    provides(packages, "qdrant_client", "qdrant-client", "1.2.0")
    path = provides(packages, "flair", "flair", "0.42.1")
    source = "import flair, qdrant_client"

    (short, do), (longer, _) = named(tmp_path, source, PYTHONPATH=path)

    assert short == "flair 0.42.1: no hook times it"
    assert do == 'with latencytrace.stage("forward"):'
    assert longer.startswith("qdrant: not applied")


@pytest.mark.long
def test_modules_of_torch_that_nothing_names_are_told_how_to(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    path = provides(packages, "torch", "torch", "2.99")

    (said,) = named(tmp_path, "import torch", PYTHONPATH=path)
    with_names = named(
        tmp_path, "import torch", PYTHONPATH=path, LATENCYTRACE_TORCH_MODULES="Encoder"
    )

    assert said == (
        "torch 2.99: modules are timed by name",
        "export LATENCYTRACE_TORCH_MODULES=… the classes that matter",
    )
    assert with_names == []


@pytest.mark.long
def test_an_instrumentor_that_the_program_imports_doubles_its_calls(tmp_path: Path) -> None:
    contrib = "[opentelemetry_instrumentor]\nsqlalchemy = somewhere.sqlalchemy:Instrumentor\n"
    path = installed(tmp_path, "opentelemetry-instrumentation-sqlalchemy", "9.70", contrib)

    started = named(tmp_path, "import sqlalchemy\nimport somewhere.sqlalchemy", PYTHONPATH=path)

    what, fix = started[0]
    assert what.startswith("opentelemetry-instrumentation-sqlalchemy 9.70: the program starts it:")
    assert fix == "leave somewhere.sqlalchemy out of the program"
    assert named(tmp_path, "import json", PYTHONPATH=path) == []


@pytest.mark.long
def test_without_the_dashes_a_command_is_looked_at_as_well(service: RunningService) -> None:
    assert found(sys.executable, "app.py", "--port", "80", **at(service)) == {}
    assert found("--", sys.executable, "app.py", "--port", "80", **at(service)) == {}


@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="needs a second interpreter")
def test_a_command_of_an_interpreter_without_latencytrace_is_told(tmp_path: Path) -> None:
    bare = Path(sys.executable).resolve()
    script = tmp_path / "serve"
    script.write_text(f"#!{bare}\nprint('never run')\n")
    script.chmod(0o755)

    assert found("--", script) == {
        f"latencytrace is not installed for {bare}, which would run it": (
            f"{bare} -m pip install latencytrace"
        )
    }


@pytest.mark.long
@pytest.mark.skipif(sys.prefix == sys.base_prefix, reason="needs a second interpreter")
def test_a_command_of_another_interpreter_with_latencytrace_is_judged_by_it(
    service: RunningService, tmp_path: Path
) -> None:
    bare = Path(sys.executable).resolve()
    packages = os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parents[3])])

    many = "".join(
        f"import a_module_of_the_program_{n}\n" for n in range(9_000)
    )  # 270 KB of names
    (tmp_path / "app.py").write_text(f"{many}import httpx\nraise SystemExit('never run')\n")

    said = latencytrace(
        *("doctor", "--all", "--", bare, "app.py"),
        env=environment(**at(service), PYTHONPATH=packages),
        cwd=tmp_path,
    )

    assert said.returncode == 0, said.stdout
    assert any(line.endswith(f", {bare}") for line in said.stdout.splitlines())
    (hooks,) = re.findall("applies once the program imports its library: (.*)", said.stdout)
    assert "httpx " in hooks
    assert "qdrant" not in hooks
