"""OTLP metrics requests, read, and the answers to their senders."""

from google.protobuf import json_format
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)

from latencytrace.errors import OtlpError
from latencytrace.service.otlp import JSON, OtlpAnswer, answer, decompressed, media_type

_IGNORED = "only what agents of latencytrace report on themselves is kept"


def metrics_request(
    body: bytes, content_type: str | None, content_encoding: str | None
) -> ExportMetricsServiceRequest:
    """Read one `POST /v1/metrics`.

    Raises:
        OtlpError: It is not OTLP; the message says why.
    """
    plain = decompressed(body, content_encoding)
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
