"""What deploys the service and the agent: its own tools read each file, and it holds together."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from latencytrace.agent import autostart
from tests.repository.test_doc_blocks import flags
from tests.repository.test_docs import settings_read
from tests.support.repository.deployment_files import (
    ALL_VALUES,
    CHART,
    DEPLOYMENT,
    ROOT,
    containers,
    manifests,
    pods,
    rendered,
)

UNIT = DEPLOYMENT / "systemd" / "latencytrace.service"
DROP_IN = DEPLOYMENT / "systemd" / "app.service.d" / "latencytrace.conf"
DOCKERFILES = sorted(DEPLOYMENT.glob("*Dockerfile"))
SETTING = re.compile(r"\b(?:LATENCYTRACE|OTEL)_[A-Z_]*[A-Z]\b")
PYTHON_PATH = re.compile(r"PYTHONPATH(?:=|: |\n\s+value: )(\S+)")
LEAST_SEVERE_FAULT = 2  # of Helm: a warning; 1 is advice


def compose() -> dict[str, Any]:
    """The compose file."""
    held: dict[str, Any] = yaml.safe_load((DEPLOYMENT / "compose.yaml").read_text("utf-8"))
    return held


def texts() -> dict[str, str]:
    """Every file, by its name."""
    files = (path for path in DEPLOYMENT.rglob("*") if path.is_file())
    return {path.relative_to(DEPLOYMENT).as_posix(): path.read_text("utf-8") for path in files}


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_hadolint_has_nothing_against_a_dockerfile(path: Path) -> None:
    hadolint = shutil.which("hadolint", path=str(Path(sys.executable).parent))
    if hadolint is None:
        pytest.skip("needs `pip install --group test`")
    done = subprocess.run([hadolint, path], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_what_a_dockerfile_copies_is_there(path: Path) -> None:
    copied = re.findall(r"^COPY (?!--)(.+) \S+$", path.read_text("utf-8"), re.MULTILINE)
    sources = [source for line in copied for source in line.split()]

    assert sources
    assert [source for source in sources if not (ROOT / source).exists()] == []


def test_what_the_wheel_needs_is_copied_before_it_is_built() -> None:
    """Hatchling wants the files that `pyproject.toml` names."""
    for name in ("Dockerfile", "agent.Dockerfile"):
        text = (DEPLOYMENT / name).read_text("utf-8")
        for needed in (
            "pyproject.toml",
            "README.md",
            "LICENSE",
            "latencytrace",
            "examples/rag_chat",
        ):
            assert re.search(rf"^COPY .*\b{re.escape(needed)}\b", text, re.MULTILINE), needed


def test_the_compose_file_names_what_is_there() -> None:
    held = compose()
    services = held["services"]
    builds = [service["build"] for service in services.values() if "build" in service]
    volumes = [one.split(":")[0] for each in services.values() for one in each.get("volumes", ())]
    awaited = {name for each in services.values() for name in each.get("depends_on", ())}

    assert awaited <= services.keys()
    assert all((DEPLOYMENT / build["context"] / build["dockerfile"]).is_file() for build in builds)
    named = {one for one in volumes if not one.startswith(".")}
    assert named == held["volumes"].keys()
    assert all((DEPLOYMENT / one).exists() for one in set(volumes) - named)


def test_compose_publishes_on_loopback_only_what_takes_no_token() -> None:
    services = compose()["services"]
    ports = [port for service in services.values() for port in service.get("ports", ())]

    assert "--insecure" in services["latencytrace"]["command"]
    assert ports
    assert [port for port in ports if not port.startswith("127.0.0.1:")] == []


def test_kubernetes_takes_every_manifest() -> None:
    schemas = pytest.importorskip("kubernetes_validate")
    version = schemas.latest_version()
    for document in manifests():
        schemas.validate(document, version, strict=True)


def test_helm_has_nothing_against_the_chart() -> None:
    helm = pytest.importorskip("helm_python", reason="`make test-helm` installs it")
    found = helm.lint(str(CHART))

    assert found["errors"] == []
    severe = [one for one in found["messages"] if one["severity"] >= LEAST_SEVERE_FAULT]
    assert severe == []


def test_the_manifests_for_those_without_helm_are_what_helm_makes() -> None:
    written = [one for one in manifests() if one["metadata"]["name"] == "latencytrace"]

    assert rendered({}) == written


def test_kubernetes_takes_the_chart_with_every_value_set() -> None:
    objects = rendered(ALL_VALUES)
    schemas = pytest.importorskip("kubernetes_validate")
    for document in objects:
        schemas.validate(document, schemas.latest_version(), strict=True)
    [stateful] = [one for one in objects if one["kind"] == "StatefulSet"]
    [objectives] = [one for one in objects if one["kind"] == "ConfigMap"]
    [policy] = [one for one in objects if one["kind"] == "NetworkPolicy"]
    [pod] = pods(objects)
    [container] = pod["containers"]

    assert objectives["data"]["objectives.yaml"].strip() == ALL_VALUES["objectives"].strip()
    assert {"name": "LATENCYTRACE_SETTLE", "value": "5"} in container["env"]
    assert container["image"] == "latencytrace:0.2.0"
    assert stateful["spec"]["volumeClaimTemplates"][0]["spec"]["storageClassName"] == "fast"
    assert policy["spec"]["egress"] == ALL_VALUES["networkPolicy"]["egress"]
    assert policy["spec"]["ingress"][1]["from"] == ALL_VALUES["networkPolicy"]["readers"]


def test_several_replicas_have_a_volume_each_and_one_database() -> None:
    objects = rendered(ALL_VALUES)
    [stateful] = [one for one in objects if one["kind"] == "StatefulSet"]
    [container] = containers(objects)
    services = [one for one in objects if one["kind"] == "Service"]
    headless = [one for one in services if one["spec"].get("clusterIP") == "None"]

    assert stateful["spec"]["replicas"] == 3
    assert [one["metadata"]["name"] for one in headless] == ["latencytrace-pods"]
    assert headless[0]["spec"]["selector"] == stateful["spec"]["selector"]["matchLabels"]
    assert {"name": "LATENCYTRACE_STORE", "value": ALL_VALUES["store"]} in container["env"]
    [password] = [one for one in container["env"] if "CLICKHOUSE_PASSWORD" in one["name"]]
    assert password["valueFrom"]["secretKeyRef"]["name"] == "clickhouse-password"


def test_several_replicas_with_an_embedded_store_each_are_refused() -> None:
    helm = pytest.importorskip("helm_python", reason="`make test-helm` installs it")
    with pytest.raises(helm.HelmError, match="need a ClickHouse server"):
        rendered({"replicas": 2})


def test_a_server_that_the_policy_lets_nobody_reach_is_refused() -> None:
    helm = pytest.importorskip("helm_python", reason="`make test-helm` installs it")
    store = {"store": ALL_VALUES["store"]}
    with pytest.raises(helm.HelmError, match="egress must name the ClickHouse server and DNS"):
        rendered(store)

    [container] = containers(rendered({**store, "networkPolicy": {"enabled": False}}))
    assert {"name": "LATENCYTRACE_STORE", "value": store["store"]} in container["env"]


def test_the_fleet_of_the_documentation_is_one_that_the_chart_makes() -> None:
    page = (ROOT / "docs" / "pages" / "past-one-machine.md").read_text("utf-8")
    [written] = re.findall(r"^```yaml\n(replicas: .+?)^```", page, re.MULTILINE | re.DOTALL)
    objects = rendered(yaml.safe_load(written))
    [policy] = [one for one in objects if one["kind"] == "NetworkPolicy"]

    assert policy["spec"]["egress"][1]["ports"] == [{"port": 8123}]


def test_a_chart_without_the_token_is_refused() -> None:
    helm = pytest.importorskip("helm_python", reason="`make test-helm` installs it")
    with pytest.raises(helm.HelmError, match="holds the token"):
        rendered({"tokenSecret": ""})


def test_no_container_may_become_root_or_write_where_it_must_not() -> None:
    for pod in pods(manifests()):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
    for container in containers(manifests()):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert {"requests", "limits"} <= container["resources"].keys()


def test_ports_and_probes_of_the_service_are_its_own() -> None:
    [container] = [one for one in containers(manifests()) if one["name"] == "latencytrace"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    image = (DEPLOYMENT / "Dockerfile").read_text("utf-8")
    probes = {kind: container[kind]["httpGet"] for kind in container if kind.endswith("Probe")}

    assert ports == {"http": 8321, "otlp-http": 4318, "otlp-grpc": 4317}
    assert {int(port) for port in re.findall(r"=0\.0\.0\.0:(\d+)", image)} == set(ports.values())
    assert probes["livenessProbe"] == {"path": "/healthz", "port": "http"}
    assert probes["readinessProbe"] == {"path": "/readyz", "port": "http"}


def test_what_sends_is_let_in_and_knows_the_token() -> None:
    objects = manifests()
    [application] = [one for one in objects if one["kind"] == "Deployment"]
    [policy] = [one for one in objects if one["kind"] == "NetworkPolicy"]
    labels = application["spec"]["template"]["metadata"]["labels"]
    [wanted] = [one["podSelector"]["matchLabels"] for one in policy["spec"]["ingress"][0]["from"]]
    secrets = {
        tuple(variable["valueFrom"]["secretKeyRef"].items())
        for container in containers(objects)
        for variable in container.get("env", ())
        if variable["name"] == "LATENCYTRACE_TOKEN"
    }

    assert wanted.items() <= labels.items()
    assert len(secrets) == 1


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
def test_systemd_takes_the_unit_and_finds_it_confined(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    text = UNIT.read_text("utf-8")
    unit.write_text(text.replace("/opt/latencytrace/bin/latencytrace", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", unit], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert "MemoryDenyWriteExecute=yes" in text  # `tests/end_to_end/test_confined.py`


def test_commands_are_those_of_the_command_line() -> None:
    [line] = re.findall(r"^ExecStart=\S+ (.+)$", UNIT.read_text("utf-8"), re.MULTILINE)
    commands = [line.split(), compose()["services"]["latencytrace"]["command"]]
    commands += [one["args"] for one in containers(manifests()) if one["name"] == "latencytrace"]
    named = {flag for command in commands for flag in command[1:]}

    assert {command[0] for command in commands} == {"serve"}
    assert named == {"--insecure"}
    assert named <= flags("serve")


def test_every_setting_that_is_set_is_one() -> None:
    named = {name for text in texts().values() for name in SETTING.findall(text)}

    assert len(named) > 10
    assert named - settings_read() == set()


def test_the_agents_folder_is_where_the_environment_says() -> None:
    paths = {path for text in texts().values() for path in PYTHON_PATH.findall(text)}
    folder = Path(next(iter(autostart.__path__))).relative_to(ROOT)

    assert len(paths) == 2  # an image's, and a machine's
    for path in paths:
        first, last = path.split(":")
        assert first == f"{last}/{folder}"
