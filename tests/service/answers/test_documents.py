"""Documents made of values: each field holds the attribute of its name."""

from dataclasses import dataclass

import pytest
from typing_extensions import TypedDict

from latencytrace.model import Stage
from latencytrace.service.answers.documents import document


class PartDocument(TypedDict):
    """A part."""

    name: str
    mean_ns: int | None


class WholeDocument(TypedDict):
    """A whole with parts."""

    start: str | None
    requests: int
    low: int | None
    share_ratio: float
    stages: dict[Stage, int]
    longest: PartDocument | None
    parts: list[PartDocument]
    names: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part."""

    name: str = "gap"
    mean_ns: float | None = 1.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Whole:
    """A whole with parts."""

    start_ns: int | None = 5
    low_ns: float | None = 2.6
    share_ratio: float = 0.25
    stages: tuple[tuple[Stage, float], ...] = ((Stage.DECODE, 3.7),)
    longest: Part | None = None
    parts: tuple[Part, ...] = (Part(), Part(mean_ns=None))
    names: tuple[str, ...] = ("a", "b")


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """What another value has."""

    requests: int = 3
    names: tuple[str, ...] = ()


def test_a_field_is_the_attribute_of_its_name_in_the_form_of_documents() -> None:
    made = document(WholeDocument, Whole(), Counted())

    assert list(made.items()) == [
        ("start", "5"),
        ("requests", 3),
        ("low", 3),
        ("share_ratio", 0.25),
        ("stages", {"decode": 4}),
        ("longest", None),
        ("parts", [{"name": "gap", "mean_ns": 2}, {"name": "gap", "mean_ns": None}]),
        ("names", ["a", "b"]),
    ]


def test_what_is_unknown_stays_unknown_and_a_value_inside_becomes_a_document() -> None:
    made = document(WholeDocument, Whole(start_ns=None, low_ns=None, longest=Part()), Counted())

    assert made["start"] is None
    assert made["low"] is None
    assert made["longest"] == {"name": "gap", "mean_ns": 2}


def test_a_field_that_is_given_is_as_it_is_given() -> None:
    made = document(WholeDocument, Whole(), requests=7, low=None, longest=None)

    assert (made["requests"], made["low"]) == (7, None)


def test_a_field_without_a_source_is_a_fault_of_ours() -> None:
    with pytest.raises(TypeError, match="nothing has the field 'requests' of WholeDocument"):
        document(WholeDocument, Whole())


def test_a_field_that_no_document_has_is_a_fault_of_ours() -> None:
    with pytest.raises(TypeError, match="PartDocument has no field 'length'"):
        document(PartDocument, Part(), length=1)
