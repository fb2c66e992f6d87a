"""Windows of maintenance, as documents of our own: OpenSLO has none."""

from datetime import datetime
from typing import Annotated, Final, Self

from pydantic import PlainValidator, model_validator

from latencytrace.service.objectives.documents.openslo import Metadata
from latencytrace.service.objectives.documents.values import Items, Text, one_of
from latencytrace.service.objectives.documents.yaml_fields import Field, Part
from latencytrace.service.objectives.maintenance import LONGEST_NS, Maintenance

VERSION: Final = "latencytrace/v1"


def _moment_ns(field: Field) -> int:
    try:
        moment = datetime.fromisoformat(field.text())
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise ValueError(f"is {field.text()!r}: write a time with its zone, 2026-01-31T22:00:00Z")
    return round(moment.timestamp()) * 10**9


class _Window(Part):
    start: Annotated[int, PlainValidator(_moment_ns)]
    end: Annotated[int, PlainValidator(_moment_ns)]
    objectives: Annotated[list[Text], Items] | None = None
    services: Annotated[list[Text], Items] | None = None

    @model_validator(mode="after")
    def _is_a_while(self) -> Self:
        if not 0 < self.end - self.start <= LONGEST_NS:
            raise ValueError("must end after its start, and within 31 days")
        return self


class _Document(Part):
    api_version: Annotated[str, one_of(VERSION)]
    kind: Annotated[str, one_of("Maintenance")]
    metadata: Metadata
    spec: _Window


def is_maintenance(document: Field) -> bool:
    """Tell whether a document is one of ours."""
    return (document.child("apiVersion") or "").startswith("latencytrace/")


def maintenance_of(document: Field) -> tuple[Maintenance, Field] | None:
    """Read a window, and where it stands; None: something in it is wrong, which is noted."""
    found = _Document.read(document)
    if found is None:
        return None
    window = Maintenance(
        name=found.metadata.name,
        start_ns=found.spec.start,
        end_ns=found.spec.end,
        objectives=frozenset(found.spec.objectives or ()),
        services=frozenset(found.spec.services or ()),
    )
    return window, found.spec.at
