"""What an exporter needs of whatever carries its bytes to a receiver."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from gzip import compress
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Answer:
    """What a receiver said to one post."""

    status: int  # HTTP's, or the one that HTTP has for the same
    reason: str
    retry_after_s: float | None


@dataclass(frozen=True, slots=True)
class Wire:
    """How bytes go over the network."""

    gzip: bool = False
    certificate: str | None = None  # file of authorities; None: the system's
    client_certificate: str | None = None
    client_key: str | None = None

    def packed(self, body: bytes) -> bytes:
        """The bytes of a post."""
        return compress(body, 1) if self.gzip else body

    def tls(self) -> ssl.SSLContext:
        """What TLS is spoken with.

        Raises:
            OSError: A file cannot be read.
        """
        context = ssl.create_default_context(cafile=self.certificate)
        if self.client_certificate is not None:
            context.load_cert_chain(self.client_certificate, self.client_key)
        return context


class Exchange(Protocol):
    """What is told with each post, and heard with its answer, beside OTLP."""

    def headers(self) -> Mapping[str, str]:
        """Of the post."""
        ...

    def heard(self, header: str) -> None:
        """Take the service's order in the answer's header."""
        ...


class Sender(Protocol):
    """Carries the bytes of OTLP requests to one address."""

    @property
    def url(self) -> str:
        """The address, as it may be shown: see `model.secrets`."""
        ...

    def post(self, body: bytes, timeout_s: float | None = None) -> Answer:
        """Send one request and wait for its answer.

        Raises:
            OSError: Nobody answered.
        """
        ...

    def close(self) -> None:
        """Let go of the connection, without a word: it may be that of a process forked from."""
        ...
