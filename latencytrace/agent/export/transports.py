"""Chooses what carries OTLP to an address."""

from collections.abc import Callable, Mapping
from typing import Final

from latencytrace.agent.export.http import HttpSender
from latencytrace.agent.export.transport import ControlChannel, Sender, TransportOptions
from latencytrace.model.texts.secrets import with_path

PROFILE_TIMEOUT_S: Final = 30.0


class Senders:
    """Makes senders that are alike but for where they send.

    Args:
        grpc: Over gRPC, else over HTTP.
    """

    def __init__(
        self, headers: Mapping[str, str], options: TransportOptions, *, grpc: bool
    ) -> None:
        self._headers = headers
        self._options = options
        self._grpc = grpc

    def to(
        self,
        url: str,
        method: str,
        timeout_s: float,
        control: Callable[[], ControlChannel | None] | None = None,
    ) -> Sender:
        """Return what carries spans, or our reports, to an address.

        Raises:
            SettingsError: It cannot; the message says why.
        """
        if self._grpc:
            from latencytrace.agent.export.grpc import GrpcSender

            return GrpcSender(url, self._headers, timeout_s, method, self._options)
        return HttpSender(url, self._headers, timeout_s, self._options, control)

    def of_profile(self, traces_url: str, profile_id: str) -> Sender:
        """Return what carries a profile to the receiver of spans; it is compressed already."""
        from latencytrace.model.profile import UPLOAD_PATH

        base, query, rest = traces_url.partition("?")
        url = with_path(
            f"{base.removesuffix('/v1/traces')}{query}{rest}", f"{UPLOAD_PATH}/{profile_id}"
        )
        plain = self._options._replace(gzip=False)
        return HttpSender(url, self._headers, PROFILE_TIMEOUT_S, plain)
