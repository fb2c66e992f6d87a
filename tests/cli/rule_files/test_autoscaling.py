"""Autoscaling: Kubernetes takes the objects, and Prometheus answers what was meant."""

from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.cli.app import app
from latencytrace.cli.rule_files.autoscaling import ScaleBy, Scaling, query
from latencytrace.model.objective import DAY_NS, window_text
from tests.support.builders.made_objectives import made_objective
from tests.support.builders.objectives_yaml import objectives_yaml
from tests.support.servers.prometheus_programs import promtool
from tests.support.terminal import said

BURNING = ("fast", "faster")
SERVICES = ("chat", 'a "b" \\ {{c}}')
EVERY_MEASURE = [flag for by in ScaleBy for flag in ("--by", f"{by}=2.5")]


def written(folder: Path, *flags: str) -> list[Any]:
    """The documents that the command writes."""
    named = ("--deployment", "chat", "--service", "rag")
    return list(yaml.safe_load_all(said("autoscaling", objectives_yaml(folder), *named, *flags)))


def test_kubernetes_takes_the_autoscaler(tmp_path: Path) -> None:
    schemas = pytest.importorskip("kubernetes_validate")

    adapter, autoscaler = written(tmp_path, "--for", "hpa", *EVERY_MEASURE)

    schemas.validate(autoscaler, schemas.latest_version(), strict=True)
    asked = [one["external"]["metric"]["name"] for one in autoscaler["spec"]["metrics"]]
    assert asked == [one["name"]["as"] for one in adapter["externalRules"]]
    assert len(asked) == len(ScaleBy)


def test_kubernetes_takes_what_keda_hands_on(tmp_path: Path) -> None:
    schemas = pytest.importorskip("kubernetes_validate")

    (scaled,) = written(tmp_path, *EVERY_MEASURE, "--replicas", "2:8")
    (_, autoscaler) = written(tmp_path, "--for", "hpa", "--replicas", "2:8")

    spec = scaled["spec"]
    handed_on = spec["advanced"]["horizontalPodAutoscalerConfig"]
    schemas.validate(
        autoscaler | {"spec": autoscaler["spec"] | handed_on},
        schemas.latest_version(),
        strict=True,
    )
    assert (spec["minReplicaCount"], spec["maxReplicaCount"]) == (2, 8)
    triggers = [one["metadata"] for one in spec["triggers"]]
    assert {type(value) for one in triggers for value in one.values()} == {str}  # KEDA asks it
    assert {one["threshold"] for one in triggers} == {"2.5"}


@pytest.mark.parametrize("service", SERVICES)
def test_each_measure_is_one_number_that_prometheus_works_out(
    tmp_path: Path, service: str
) -> None:
    scaling = Scaling(
        deployment="chat",
        service=service,
        targets={},
        objectives=[made_objective(name=name, period_ns=30 * DAY_NS) for name in BURNING],
        least=1,
        most=2,
        prometheus="",
    )
    labels = "service=" + yaml.safe_dump(service, default_style='"', allow_unicode=True).strip()
    stage = f"latencytrace_stage_duration_seconds_sum{{{labels}, stage"
    per_minute = 60
    series = {
        f'{stage}="queue"}}': 3 * per_minute,  # three wait, on average
        f'{stage}="prefill"}}': per_minute,
        f'{stage}="decode"}}': 4 * per_minute,
        f'{stage}="tokenize"}}': 9 * per_minute,
        f"latencytrace_request_duration_seconds_count{{{labels}}}": 10 * per_minute,
    }
    shortest = window_text(min(rule.short_ns for rule in burn_rules(scaling.objectives[0])))
    burning = f'latencytrace_slo_burn_rate{{slo="faster", window="{shortest}"}}'
    expected = {
        ScaleBy.WAITING: 3.0,
        ScaleBy.BATCH: 5.0,
        ScaleBy.QUEUE_TIME: 0.3,
        ScaleBy.BURN_RATE: 7.0,
    }
    nothing = Scaling(
        deployment="chat", service="none", targets={}, objectives=[made_objective(name="none")],
        least=1, most=2, prometheus="",
    )  # fmt: skip
    asked = [(query(scaling, by), value) for by, value in expected.items()]
    asked += [(query(nothing, by), 0.0) for by in ScaleBy]
    document = {
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    *({"series": name, "values": f"0+{step}x10"} for name, step in series.items()),
                    {"series": burning, "values": "7x10"},
                ],
                "promql_expr_test": [
                    {
                        "expr": expression,
                        "eval_time": "8m",
                        "exp_samples": [{"labels": "{}", "value": value}],
                    }
                    for expression, value in asked
                ],
            }
        ]
    }
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump(document, allow_unicode=True))

    assert "SUCCESS" in promtool("test", "rules", tmp_path / "tests.yaml")


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (["--by", "waiting"], "'waiting' is not MEASURE=TARGET"),
        (["--by", "cpu=1"], "measures: waiting, batch, queue-time, burn-rate"),
        (["--by", "waiting=0"], "a target lies between"),
        (["--by", "waiting=nan"], "a target lies between"),
        (["--replicas", "3:1"], "say MIN:MAX"),
        (["--deployment", "a b"], "no name of a deployment"),
        (["--by", "burn-rate=1", "--service", "other"], "is of other"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, flags: list[str], why: str) -> None:
    objectives = str(objectives_yaml(tmp_path))

    refused = CliRunner().invoke(app, ["autoscaling", objectives, "--deployment", "rag", *flags])

    assert refused.exit_code == 2
    assert why in " ".join(refused.output.replace("│", " ").split())
