"""Prometheus's protobuf form, decoded by the protobuf library from its published schema."""

from collections.abc import Iterator
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.internal.decoder import _DecodeVarint32  # type: ignore[attr-defined] # untyped

_PACKAGE: Final = "io.prometheus.client"
_TYPES: Final = {
    "double": 1, "int64": 3, "uint64": 4, "int32": 5, "string": 9, "message": 11, "uint32": 13,
    "enum": 14, "sint32": 17, "sint64": 18,
}  # fmt: skip
# As client_model's metrics.proto has them: name, number, type; `*`: repeated.
_MESSAGES: Final = {
    "LabelPair": (("name", 1, "string"), ("value", 2, "string")),
    "Gauge": (("value", 1, "double"),),
    "Counter": (("value", 1, "double"), ("exemplar", 2, "Exemplar")),
    "Untyped": (("value", 1, "double"),),
    "Timestamp": (("seconds", 1, "int64"), ("nanos", 2, "int32")),
    "Exemplar": (
        ("label", 1, "*LabelPair"), ("value", 2, "double"), ("timestamp", 3, "Timestamp"),
    ),
    "Bucket": (
        ("cumulative_count", 1, "uint64"), ("upper_bound", 2, "double"),
        ("exemplar", 3, "Exemplar"),
    ),
    "BucketSpan": (("offset", 1, "sint32"), ("length", 2, "uint32")),
    "Histogram": (
        ("sample_count", 1, "uint64"), ("sample_sum", 2, "double"), ("bucket", 3, "*Bucket"),
        ("schema", 5, "sint32"), ("zero_threshold", 6, "double"), ("zero_count", 7, "uint64"),
        ("positive_span", 12, "*BucketSpan"), ("positive_delta", 13, "*sint64"),
    ),
    "Metric": (
        ("label", 1, "*LabelPair"), ("gauge", 2, "Gauge"), ("counter", 3, "Counter"),
        ("untyped", 5, "Untyped"), ("histogram", 7, "Histogram"),
    ),
    "MetricFamily": (
        ("name", 1, "string"), ("help", 2, "string"), ("type", 3, "int32"),
        ("metric", 4, "*Metric"),
    ),
}  # fmt: skip


def _family_class() -> Any:
    file = descriptor_pb2.FileDescriptorProto(
        name="metrics.proto", package=_PACKAGE, syntax="proto3"
    )
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, number, kind in fields:
            inner = kind.removeprefix("*")
            field: Any = message.field.add(name=field_name, number=number)
            field.label = 3 if kind.startswith("*") else 1
            field.type = _TYPES.get(inner, _TYPES["message"])
            if inner in _MESSAGES:
                field.type_name = f".{_PACKAGE}.{inner}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.MetricFamily"))


_FAMILY: Final = _family_class()


def decoded(body: bytes) -> Iterator[Any]:
    """Read families, each after its length; a field that the schema lacks is an error."""
    at = 0
    while at < len(body):
        length, at = _DecodeVarint32(body, at)
        family = _FAMILY.FromString(body[at : at + length])
        again = _FAMILY.FromString(body[at : at + length])
        again.DiscardUnknownFields()
        assert again.SerializeToString() == family.SerializeToString(), "an unknown field"
        yield family
        at += length


def native_counts(histogram: Any) -> dict[int, int]:
    """The counts of a native histogram by number of bucket, from its spans and differences."""
    deltas = iter(histogram.positive_delta)
    found: dict[int, int] = {}
    number = count = 0
    for span in histogram.positive_span:
        number += span.offset
        for _ in range(span.length):
            count += next(deltas)
            found[number] = count
            number += 1
    assert next(deltas, None) is None, "more counts than buckets"
    return {number: count for number, count in found.items() if count}
