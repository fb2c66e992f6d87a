"""OTLP metrics requests, read, and the answers to their senders."""

from collections.abc import Iterable
from typing import Final

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import NumberDataPoint

from latencytrace.errors import OtlpError
from latencytrace.service.otlp.traces import (
    JSON,
    OtlpAnswer,
    answer,
    decompressed_if_short,
    media_type,
)

MAX_BYTES: Final = 8 * 1024 * 1024  # decompressed; agents send a few kB, and JSON is read slowly
MAX_CHARACTERS: Final = 200  # of an attribute
_IGNORED = "only what agents of latencytrace report on themselves and on GPUs is kept"


def metrics_request(
    body: bytes, content_type: str | None, content_encoding: str | None
) -> ExportMetricsServiceRequest:
    """Read one `POST /v1/metrics`.

    Raises:
        OtlpError: It is not OTLP; the message says why.
    """
    plain = decompressed_if_short(body, content_encoding, MAX_BYTES)
    if plain is None:
        raise OtlpError(f"there are more than {MAX_BYTES} bytes of metrics: send smaller batches")
    try:
        if media_type(content_type) == JSON:
            message = ExportMetricsServiceRequest()
            json_format.Parse(plain, message, ignore_unknown_fields=True)
            return message
        return ExportMetricsServiceRequest.FromString(plain)
    except (DecodeError, json_format.ParseError, UnicodeDecodeError) as error:
        raise OtlpError(f"the body is not an OTLP metrics request: {error}") from None


def metrics_answer(ignored: int, content_type: str | None) -> OtlpAnswer:
    """The answer to a request that was read, with how many data points were not kept."""
    response = ExportMetricsServiceResponse()
    if ignored:
        response.partial_success.rejected_data_points = ignored
        response.partial_success.error_message = _IGNORED
    return answer(response, content_type)


def number(point: NumberDataPoint) -> float:
    """The value of a point."""
    return float(point.as_int if point.HasField("as_int") else point.as_double)


def texts(attributes: Iterable[KeyValue]) -> dict[str, str]:
    """Attributes as bounded texts; those of other kinds than texts and integers are left out."""
    found = {}
    for pair in attributes:
        if pair.value.HasField("string_value"):
            found[pair.key] = pair.value.string_value[:MAX_CHARACTERS]
        elif pair.value.HasField("int_value"):
            found[pair.key] = str(pair.value.int_value)
    return found
