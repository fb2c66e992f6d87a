"""The address that metrics are sent to: checked, and never our own."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from latencytrace.errors import SettingsError
from latencytrace.service.net.addresses import flaw
from latencytrace.service.net.edge import is_loopback

VARIABLE: Final = "LATENCYTRACE_METRICS_ENDPOINT"
_HTTP: Final = "http/protobuf"
_GRPC: Final = "grpc"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsEndpoint:
    """An OTLP receiver of metrics."""

    url: str  # over HTTP with its path
    grpc: bool


def metrics_endpoint(
    named: str, protocol: str | None, own: Iterable[tuple[str, int]]
) -> MetricsEndpoint:
    """The receiver that the settings name.

    Args:
        named: Address; over HTTP, one without a path gets that of metrics.
        protocol: Protocol of OTLP; None: HTTP.
        own: Hosts and ports that this service receives at.

    Raises:
        SettingsError: Nothing can be sent there, or this service would send to itself.
    """
    protocol = (protocol or _HTTP).lower()
    if protocol not in {_HTTP, _GRPC}:
        raise SettingsError(
            f"metrics are sent over {_HTTP} or {_GRPC}, not over {protocol!r}: set "
            "OTEL_EXPORTER_OTLP_METRICS_PROTOCOL"
        )
    is_grpc = protocol == _GRPC
    # Over gRPC, an address may stand without scheme.
    address = named if not is_grpc or "://" in named else f"http://{named}"
    why_not = flaw(address)
    if why_not is not None:
        raise SettingsError(f"{VARIABLE}: its address {why_not}")
    url = urlsplit(address)
    host, port = url.hostname or "", url.port
    for own_host, own_port in own:
        if port == own_port and (host == own_host or is_loopback(host)):
            raise SettingsError(
                f"{VARIABLE} is this service's own receiver: name another one's address"
            )
    if not is_grpc and url.path in {"", "/"}:
        named = f"{named.rstrip('/')}/v1/metrics"
    return MetricsEndpoint(url=named, grpc=is_grpc)
