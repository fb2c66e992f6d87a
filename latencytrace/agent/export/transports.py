"""Chooses what carries OTLP to an address."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from latencytrace.agent.export.grpc import GrpcSender
from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.export.transport import ControlChannel, Sender, TransportOptions
from latencytrace.model.profile import UPLOAD_PATH
from latencytrace.model.texts.secrets import with_path

PROFILE_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Senders:
    """Makes senders that are alike but for where they send.

    Args:
        headers: Of each request.
        options: Compression and certificates.
        grpc: Over gRPC, else over HTTP.
    """

    headers: Mapping[str, str] = field(repr=False)
    options: TransportOptions
    grpc: bool

    def to(
        self, url: str, method: str, timeout_s: float, control: ControlChannel | None = None
    ) -> Sender:
        """Return what carries spans, or our reports, to an address.

        Raises:
            SettingsError: It cannot; the message says why.
        """
        if self.grpc:
            return GrpcSender(url, self.headers, timeout_s, method, self.options)
        return HttpSender(url, self.headers, timeout_s, self.options, control)

    def of_profile(self, traces_url: str, profile_id: str) -> Sender:
        """Return what carries a profile to the receiver of spans; it is compressed already."""
        base, query, rest = traces_url.partition("?")
        url = with_path(
            f"{base.removesuffix('/v1/traces')}{query}{rest}", f"{UPLOAD_PATH}/{profile_id}"
        )
        plain = replace(self.options, gzip=False)
        return HttpSender(url, self.headers, PROFILE_TIMEOUT_S, plain)
