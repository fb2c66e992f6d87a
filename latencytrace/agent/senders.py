"""Chooses what carries OTLP to an address."""

from collections.abc import Mapping

from latencytrace.agent.grpc_sender import GrpcSender
from latencytrace.agent.http_sender import HttpSender
from latencytrace.agent.sender import Sender


def sender(
    url: str, headers: Mapping[str, str], timeout_s: float, method: str, *, grpc: bool
) -> Sender:
    """What carries spans, or our reports, to an address.

    Raises:
        SettingsError: It cannot; the message says why.
    """
    if grpc:
        return GrpcSender(url, headers, timeout_s, method)
    return HttpSender(url, headers, timeout_s)
