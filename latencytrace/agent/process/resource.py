"""Describes this process, for every span that it sends."""

import os
import platform
from urllib.parse import unquote

from opentelemetry.sdk.version import __version__ as sdk_version

from latencytrace.agent.guard import logger
from latencytrace.agent.process.name import this_program
from latencytrace.model import semconv
from latencytrace.plugins import installed_version

DISTRIBUTION = "latencytrace"
_VERSION_4 = 0x40  # of a UUID: random, in its seventh byte
_VARIANT = 0x80  # of RFC 4122, in its ninth


def resource_of(
    service_name: str | None, attributes: str = "", *, detectors: bool = False
) -> dict[str, object]:
    """Attributes of this process; `OTEL_RESOURCE_ATTRIBUTES` comes first.

    Args:
        service_name: What the program is called; None: it has no name.
        attributes: Value of `OTEL_RESOURCE_ATTRIBUTES`.
        detectors: Ask the SDK's detectors, too; loading them takes a program's start longer.
    """
    detected = _of_detectors() if detectors else _of_variable(attributes)
    named = str(detected.get(semconv.SERVICE_NAME, ""))
    if service_name:
        detected[semconv.SERVICE_NAME] = service_name
    elif not named or named.startswith("unknown_service"):
        detected[semconv.SERVICE_NAME] = this_program()
    detected.setdefault(semconv.SERVICE_INSTANCE_ID, new_instance_id())
    detected.setdefault(semconv.HOST_NAME, platform.node())
    detected["process.pid"] = os.getpid()
    detected["telemetry.distro.name"] = DISTRIBUTION
    detected["telemetry.distro.version"] = installed_version(DISTRIBUTION)
    return detected


def new_instance_id() -> str:
    """Return a random UUID; the module of that name takes longer to import than all else here."""
    random = bytearray(os.urandom(16))
    random[6] = random[6] & 0x0F | _VERSION_4
    random[8] = random[8] & 0x3F | _VARIANT
    digits = random.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _of_detectors() -> dict[str, object]:
    from opentelemetry.sdk.resources import Resource

    return dict(Resource.create({}).attributes)


def _of_variable(attributes: str) -> dict[str, object]:
    """Return what the SDK's resource has where no detector is asked for."""
    detected: dict[str, object] = {
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "opentelemetry",
        "telemetry.sdk.version": sdk_version,
    }
    for pair in filter(None, attributes.split(",")):
        key, separator, value = pair.partition("=")
        if separator and key.strip():
            detected[key.strip()] = unquote(value.strip())
        else:
            logger.warning("OTEL_RESOURCE_ATTRIBUTES: %r is no pair of key and value", pair)
    return detected
