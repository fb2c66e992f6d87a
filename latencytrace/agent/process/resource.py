"""Describes this process, for every span that it sends."""

import importlib.metadata
import os
import socket
from uuid import uuid4

from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource

from latencytrace.agent.process.name import this_program
from latencytrace.model import semconv

DISTRIBUTION = "latencytrace"


def resource_of(service_name: str | None) -> dict[str, object]:
    """Attributes of this process; `OTEL_RESOURCE_ATTRIBUTES` comes first."""
    detected: dict[str, object] = dict(Resource.create({}).attributes)
    named = str(detected.get(SERVICE_NAME, ""))
    if service_name:
        detected[SERVICE_NAME] = service_name
    elif not named or named.startswith("unknown_service"):
        detected[SERVICE_NAME] = this_program()
    detected.setdefault(SERVICE_INSTANCE_ID, str(uuid4()))
    detected.setdefault(semconv.HOST_NAME, socket.gethostname())
    detected["process.pid"] = os.getpid()
    detected["telemetry.distro.name"] = DISTRIBUTION
    detected["telemetry.distro.version"] = importlib.metadata.version(DISTRIBUTION)
    return detected
