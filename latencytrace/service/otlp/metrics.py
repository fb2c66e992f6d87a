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
from latencytrace.service.otlp.json import tree_of
from latencytrace.service.otlp.mending.account import Mending
from latencytrace.service.otlp.mending.json import mend_tree
from latencytrace.service.otlp.mending.protobuf import with_whole_texts
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
            return _from_json(plain)
        return _from_protobuf(plain)
    except (DecodeError, json_format.ParseError, ValueError, RecursionError, SystemError) as error:
        raise OtlpError(f"the body is not an OTLP metrics request: {error}") from None


def _from_protobuf(plain: bytes) -> ExportMetricsServiceRequest:
    """The request; one sender's texts cost no other's metrics."""
    try:
        return ExportMetricsServiceRequest.FromString(plain)
    except DecodeError:
        whole = with_whole_texts(plain, ExportMetricsServiceRequest)
        if whole is None:
            raise
        return ExportMetricsServiceRequest.FromString(whole)


def _from_json(plain: bytes) -> ExportMetricsServiceRequest:
    """The request, without the values that cannot be."""
    tree = tree_of(plain, mends=True)
    if not isinstance(tree, dict):
        raise OtlpError("the body is not an OTLP metrics request: it is no JSON object")
    try:
        return _parsed(tree)
    except (json_format.ParseError, ValueError, SystemError):
        mend_tree(tree, ExportMetricsServiceRequest, Mending())
        found = _parsed(tree)
        if not found.resource_metrics:
            raise
        return found


def _parsed(tree: dict[str, object]) -> ExportMetricsServiceRequest:
    message = ExportMetricsServiceRequest()
    return json_format.ParseDict(tree, message, ignore_unknown_fields=True)


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
