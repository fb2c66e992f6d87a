"""Chooses what carries OTLP to an address."""

from collections.abc import Mapping

from latencytrace.agent.grpc_sender import GrpcSender
from latencytrace.agent.http_sender import HttpSender
from latencytrace.agent.sender import Sender, Wire


def sender(  # noqa: PLR0913 - what it is told, each by name
    url: str,
    headers: Mapping[str, str],
    timeout_s: float,
    method: str,
    *,
    grpc: bool,
    wire: Wire,
) -> Sender:
    """What carries spans, or our reports, to an address.

    Raises:
        SettingsError: It cannot; the message says why.
    """
    if grpc:
        return GrpcSender(url, headers, timeout_s, method, wire)
    return HttpSender(url, headers, timeout_s, wire)
