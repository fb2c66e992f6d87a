"""How many replicas a program needs, by what was measured: for KEDA, and for Kubernetes alone."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from latencytrace.analysis.slo.burn_rate import burn_rules
from latencytrace.cli.rule_files.prometheus import Document
from latencytrace.model import Objective, Stage
from latencytrace.model.objective import window_text

_WINDOW: Final = "2m"
_ON_THE_MODEL: Final = f"{Stage.PREFILL}|{Stage.DECODE}|{Stage.FORWARD}"
_POLL_S: Final = 15
_UP_S, _DOWN_S = 30, 300  # that a change must last
_STEP_S: Final = 60


class Autoscaler(StrEnum):
    """The scaler."""

    KEDA = "keda"
    HPA = "hpa"  # Kubernetes's own, which reads Prometheus by `prometheus-adapter`


class ScaleBy(StrEnum):
    """The signal that replicas are scaled by."""

    WAITING = "waiting"  # requests that wait, a replica
    BATCH = "batch"  # requests that the model works on at once, a replica
    QUEUE_TIME = "queue-time"  # seconds, of the mean request
    BURN_RATE = "burn-rate"  # of the objective that burns fastest


PER_REPLICA: Final = frozenset({ScaleBy.WAITING, ScaleBy.BATCH})


@dataclass(frozen=True, slots=True, kw_only=True)
class Scaling:
    """How a deployment is scaled.

    Args:
        deployment: Name of the deployment, with which written names begin.
        prometheus: The address of the server, for KEDA.
    """

    deployment: str
    service: str
    targets: Mapping[ScaleBy, float]
    objectives: Sequence[Objective]
    least: int
    most: int
    prometheus: str


def autoscaling_documents(scaling: Scaling, autoscaler: Autoscaler) -> list[Document]:
    if autoscaler is Autoscaler.KEDA:
        return [_scaled_object(scaling)]
    return [_adapter(scaling), _autoscaler(scaling)]


def query(scaling: Scaling, by: ScaleBy) -> str:
    """Return the PromQL of a measure: one number, 0 where there are no requests.

    By Little's law the seconds that requests spend somewhere, per second, are how many are there.
    """
    service = f"service={json.dumps(scaling.service, ensure_ascii=False)}"
    if by is ScaleBy.BURN_RATE:
        rates = " or ".join(
            f"latencytrace_slo_burn_rate{{slo={json.dumps(one.name)}, "
            f'window="{window_text(min(rule.short_ns for rule in burn_rules(one)))}"}}'
            for one in scaling.objectives
        )
        return f"max({rates}) or vector(0)"
    stages = Stage.QUEUE if by is not ScaleBy.BATCH else _ON_THE_MODEL
    seconds = (
        f'sum(rate(latencytrace_stage_duration_seconds_sum{{{service}, stage=~"{stages}"}}'
        f"[{_WINDOW}]))"
    )
    if by is ScaleBy.QUEUE_TIME:
        requests = (
            f"sum(rate(latencytrace_request_duration_seconds_count{{{service}}}[{_WINDOW}]))"
        )
        seconds = f"{seconds} / ({requests} > 0)"
    return f"{seconds} or vector(0)"


def _scaled_object(scaling: Scaling) -> Document:
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": scaling.deployment},
        "spec": {
            "scaleTargetRef": {"name": scaling.deployment},
            "minReplicaCount": scaling.least,
            "maxReplicaCount": scaling.most,
            "pollingInterval": _POLL_S,
            "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _BEHAVIOR}},
            "triggers": [
                {
                    "type": "prometheus",
                    "metricType": "AverageValue" if by in PER_REPLICA else "Value",
                    "metadata": {
                        "serverAddress": scaling.prometheus,
                        "query": query(scaling, by),
                        "threshold": f"{target:g}",
                    },
                }
                for by, target in scaling.targets.items()
            ],
        },
    }


def _adapter(scaling: Scaling) -> Document:
    """Return the configuration of `prometheus-adapter`."""
    return {
        "externalRules": [
            {
                "seriesQuery": "latencytrace_request_duration_seconds_count",
                "resources": {"namespaced": False},
                "name": {"as": _metric(scaling, by)},
                "metricsQuery": query(scaling, by),
            }
            for by in scaling.targets
        ]
    }


def _autoscaler(scaling: Scaling) -> Document:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": scaling.deployment}
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": scaling.deployment},
        "spec": {
            "scaleTargetRef": target,
            "minReplicas": scaling.least,
            "maxReplicas": scaling.most,
            "behavior": _BEHAVIOR,
            "metrics": [
                {
                    "type": "External",
                    "external": {
                        "metric": {"name": _metric(scaling, by)},
                        "target": _target(by, wanted),
                    },
                }
                for by, wanted in scaling.targets.items()
            ],
        },
    }


def _target(by: ScaleBy, wanted: float) -> Document:
    quantity = f"{round(1000 * wanted)}m"
    if by in PER_REPLICA:
        return {"type": "AverageValue", "averageValue": quantity}
    return {"type": "Value", "value": quantity}


def _metric(scaling: Scaling, by: ScaleBy) -> str:
    return f"latencytrace_{scaling.deployment}_{by}".replace("-", "_").replace(".", "_")


# Replicas double at most, and leave one in ten, a minute: a cold start answers nothing.
_BEHAVIOR: Final = {
    "scaleUp": {
        "stabilizationWindowSeconds": _UP_S,
        "policies": [{"type": "Percent", "value": 100, "periodSeconds": _STEP_S}],
    },
    "scaleDown": {
        "stabilizationWindowSeconds": _DOWN_S,
        "policies": [{"type": "Percent", "value": 10, "periodSeconds": _STEP_S}],
    },
}
