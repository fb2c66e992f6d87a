"""The files of `examples/deployment`, and what they set in the environment of containers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
DEPLOYMENT = ROOT / "examples" / "deployment"
CHART = DEPLOYMENT / "helm"
KUBERNETES = DEPLOYMENT / "kubernetes"
# Every value of the chart that it leaves empty.
ALL_VALUES: dict[str, Any] = {
    "image": {"tag": "0.2.0"},
    "environment": {"LATENCYTRACE_SETTLE": 5},
    "replicas": 3,
    "store": "clickhouse://traces@clickhouse:8123/latencytrace",
    "storePasswordSecret": "clickhouse-password",
    "objectives": "apiVersion: openslo/v1\nkind: SLO\n",
    "persistence": {"storageClass": "fast"},
    "networkPolicy": {
        "namespaces": {"matchLabels": {"team": "chat"}},
        "readers": [{"podSelector": {"matchLabels": {"app": "prometheus"}}}],
        "egress": [{"ports": [{"port": 9093}]}],
    },
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "dedicated", "operator": "Exists"}],
}


def documents(text: str) -> list[dict[str, Any]]:
    """The objects in a file of manifests."""
    return [document for document in yaml.safe_load_all(text) if document]


def manifests() -> list[dict[str, Any]]:
    """Every object that may be applied as it is."""
    return [
        document
        for path in sorted(KUBERNETES.glob("*.yaml"))
        for document in documents(path.read_text("utf-8"))
    ]


def rendered(values: dict[str, Any]) -> list[dict[str, Any]]:
    """What Helm makes of the chart; without Helm the test is skipped."""
    helm = pytest.importorskip("helm_python", reason="`make test-helm` installs it")
    with helm.Chart.load(str(CHART)) as chart:
        files: dict[str, str] = chart.render(values, name="latencytrace", namespace="default")
    return [
        document
        for path in sorted(files)
        if path.endswith(".yaml")
        for document in documents(files[path])
    ]


def pods(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The pods that these objects start."""
    for one in objects:
        if one["kind"] in {"Deployment", "StatefulSet"}:
            yield one["spec"]["template"]["spec"]


def containers(objects: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The containers of these pods, those that run first included."""
    for pod in pods(objects):
        yield from (*pod.get("initContainers", ()), *pod["containers"])
