"""The contract of what carries an exporter's bytes to a receiver."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from latencytrace.agent.process.forks import whole_imports
from latencytrace.model.varints import number_at

if TYPE_CHECKING:
    import ssl

# Methods of OTLP's services over gRPC.
TRACES: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
METRICS: Final = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"


class PartialSuccess(NamedTuple):
    """Spans or points that a receiver left out of what it took, and what it says of that."""

    rejected: int = 0
    message: str = ""


NOTHING: Final = PartialSuccess()  # was left out


class Response(NamedTuple):
    """The response of a receiver to one request."""

    status: int  # HTTP's, or the one that HTTP has for the same
    reason: str
    retry_after_s: float | None
    partial: PartialSuccess = NOTHING


class TransportOptions(NamedTuple):
    """Compression and certificates of the connections to receivers."""

    gzip: bool = False
    certificate: str | None = None  # file of authorities; None: the system's
    client_certificate: str | None = None
    client_key: str | None = None

    def packed(self, body: bytes) -> bytes:
        if not self.gzip:
            return body
        return _compress()(body, 1)

    def tls(self) -> "ssl.SSLContext":
        """Return the settings of TLS.

        Raises:
            OSError: A file cannot be read.
        """
        with whole_imports.lock:
            import encodings.idna  # noqa: F401 - which a name is looked up by
            import ssl

        context = ssl.create_default_context(cafile=self.certificate)
        if self.client_certificate is not None:
            context.load_cert_chain(self.client_certificate, self.client_key)
        return context


class ControlChannel(Protocol):
    """Orders of the service, which travel in the headers of requests and responses."""

    @property
    def order_header(self) -> str:
        """Return the name of the header of responses that an order stands in."""
        ...

    def headers(self) -> Mapping[str, str]:
        """Return the headers of the next request."""
        ...

    def receive(self, header: str) -> None:
        """Take the order in a response's header."""
        ...


class Sender(Protocol):
    """Carries the bytes of OTLP requests to one address."""

    @property
    def url(self) -> str:
        """Return the address, without secrets."""
        ...

    def send(self, body: bytes, timeout_s: float | None = None) -> Response:
        """Send one request and wait for its response.

        Raises:
            OSError: No receiver answered.
        """
        ...

    def close(self) -> None:
        """Close the connection without a goodbye: it may be a forked process's parent's."""
        ...


@cache
def _compress() -> Callable[[bytes, int], bytes]:
    """Import what takes a while and few programs need."""
    with whole_imports.lock:
        from gzip import compress

    return compress


# Spans that a receiver did not take, though it answers that it took the post.
#
# Read by hand, for importing protobuf takes 0.1 s: the test has its classes as the oracle.

_VARINT, _BYTES = 0, 2  # protobuf's types of fields
_PARTIAL_SUCCESS, _REJECTED, _MESSAGE = 1, 1, 2  # numbers of fields
_MOST_BITS = 63
_MOST_CHARACTERS = 200


def partial_success(body: bytes) -> PartialSuccess:
    """Read the body of an answer, of traces or of metrics; what cannot be read says nothing."""
    rejected, message = 0, b""
    try:
        for number, value in _fields(body):
            if number == _PARTIAL_SUCCESS and isinstance(value, bytes):
                for inner, held in _fields(value):
                    if inner == _REJECTED and isinstance(held, int):
                        rejected = held
                    elif inner == _MESSAGE and isinstance(held, bytes):
                        message = held
    except (IndexError, ValueError):
        return NOTHING
    if rejected.bit_length() > _MOST_BITS:
        return NOTHING
    text = message.decode("utf-8", "replace")[:_MOST_CHARACTERS]
    return PartialSuccess(rejected, "".join(one if one.isprintable() else "?" for one in text))


def _fields(body: bytes) -> list[tuple[int, int | bytes]]:
    """Return the fields of a message, of the two types that there are.

    Raises:
        IndexError: The message is cut off.
        ValueError: The bytes are not such a message.
    """
    found: list[tuple[int, int | bytes]] = []
    at = 0
    while at < len(body):
        key, at = number_at(body, at)
        value, at = number_at(body, at)
        if key & 7 == _VARINT:
            found.append((key >> 3, value))
        elif key & 7 == _BYTES:
            if at + value > len(body):
                raise IndexError("a field is cut off")
            found.append((key >> 3, body[at : at + value]))
            at += value
        else:
            raise ValueError(f"a field of type {key & 7}")
    return found
