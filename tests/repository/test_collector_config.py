"""The Collector's configuration that we publish: of options that its load-balancing exporter has.

The names are those of the exporter's own schema (`config.schema.yaml` of contrib, and of the
helpers that it takes up); its binary is in no registry that these tests can reach.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

CONFIG = Path(__file__).parents[2] / "examples" / "deployment" / "collector" / "fleet.yaml"
DURATION = {"type": "string", "pattern": r"^([0-9.]+(ns|us|ms|s|m|h))+$"}
RETRY = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "enabled": {"type": "boolean"},
        "initial_interval": DURATION,
        "max_interval": DURATION,
        "max_elapsed_time": DURATION,
        "multiplier": {"type": "number"},
        "randomization_factor": {"type": "number"},
    },
}
QUEUE = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "enabled": {"type": "boolean"},
        "queue_size": {"type": "integer"},
        "num_consumers": {"type": "integer"},
        "sizer": {"enum": ["requests", "items", "bytes"]},
        "block_on_overflow": {"type": "boolean"},
        "wait_for_result": {"type": "boolean"},
        "storage": {"type": "string"},
        "batch": {"type": "object"},
    },
}
TIMED = {"hostname": {"type": "string"}, "interval": DURATION, "timeout": DURATION}
EXPORTER = {
    "type": "object",
    "additionalProperties": False,
    "required": ["resolver", "protocol", "routing_key"],
    "properties": {
        "routing_key": {
            "enum": ["traceID", "service", "resource", "metric", "streamID", "attributes"]
        },
        "routing_attributes": {"type": "array", "items": {"type": "string"}},
        "timeout": DURATION,
        "sending_queue": QUEUE,
        "retry_on_failure": RETRY,
        "resolver": {
            "type": "object",
            "additionalProperties": False,
            "minProperties": 1,
            "maxProperties": 1,
            "properties": {
                "static": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "hostnames": {
                            "type": "array",
                            "minItems": 2,
                            "items": {"type": "string", "pattern": r"^[^:/\s]+:[0-9]+$"},
                        }
                    },
                },
                "dns": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {**TIMED, "port": {"type": "string"}},
                },
                "k8s": {"type": "object"},
            },
        },
        "protocol": {
            "type": "object",
            "additionalProperties": False,
            "required": ["otlp"],
            "properties": {
                "otlp": {
                    "type": "object",
                    "additionalProperties": False,
                    "properties": {
                        "tls": {"type": "object"},
                        "headers": {"type": "object", "additionalProperties": {"type": "string"}},
                        "compression": {"type": "string"},
                        "timeout": DURATION,
                        "sending_queue": QUEUE,
                        "retry_on_failure": RETRY,
                    },
                }
            },
        },
    },
}


@pytest.fixture(scope="module")
def config() -> Mapping[str, Any]:
    read: Mapping[str, Any] = yaml.safe_load(CONFIG.read_text())
    return read


def test_its_exporters_have_options_that_there_are(config: Mapping[str, Any]) -> None:
    for exporter in config["exporters"].values():
        jsonschema.validate(exporter, EXPORTER)


def test_its_pipelines_name_what_it_defines_and_leave_nothing_out(
    config: Mapping[str, Any],
) -> None:
    for part in ("receivers", "processors", "exporters"):
        named = {name for one in config["service"]["pipelines"].values() for name in one[part]}
        assert named == set(config[part])


def test_all_spans_of_a_trace_go_to_one_service(config: Mapping[str, Any]) -> None:
    [exporter] = config["service"]["pipelines"]["traces"]["exporters"]

    assert config["exporters"][exporter]["routing_key"] == "traceID"


@pytest.mark.parametrize(
    ("change", "to"), [("routing_key", "trace_id"), ("resolvers", {}), ("timeout", "10 s")]
)
def test_an_option_that_there_is_not_is_found(
    config: Mapping[str, Any], change: str, to: object
) -> None:
    wrong = {**config["exporters"]["loadbalancing/traces"], change: to}

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, EXPORTER)
