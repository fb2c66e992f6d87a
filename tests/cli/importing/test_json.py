"""Reading JSON piece by piece."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from latencytrace.cli.importing.json import Fault, Item, JsonReader
from latencytrace.errors import OtlpError

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
    max_leaves=9,
)
documents = st.fixed_dictionaries({"resourceSpans": st.lists(values, max_size=4)})


def read(text: str | bytes, size: int = 7) -> list[Item | Fault]:
    """What is read from chunks of this size."""
    body = text.encode() if isinstance(text, str) else text
    return list(JsonReader(chunks(body, size)).items())


def chunks(body: bytes, size: int) -> Iterator[bytes]:
    for start in range(0, len(body), size):
        yield body[start : start + size]


def read_values(text: str, size: int = 7) -> list[object]:
    return [item.value if isinstance(item, Item) else item for item in read(text, size)]


@given(st.lists(documents, max_size=3), st.integers(1, 50), st.sampled_from([None, 2]))
def test_chunks_of_any_size_give_every_item(
    wanted: list[dict[str, list[object]]], size: int, indent: int | None
) -> None:
    text = "\n".join(json.dumps(document, indent=indent) for document in wanted)

    items = [item for document in wanted for item in document["resourceSpans"]]
    assert read_values(text, size) == items


@pytest.mark.parametrize("number", [-0.0, 1.5, 12, 1.5e70, 1.5e-70, -1])
def test_a_number_is_whole_wherever_a_chunk_ends(number: float) -> None:
    assert read_values(json.dumps({"data": [number, 2]}), 1) == [number, 2]


@given(st.binary(max_size=200), st.integers(1, 50))
def test_any_bytes_are_read_to_their_end(body: bytes, size: int) -> None:
    assert isinstance(read(body, size), list)


def test_what_stands_beside_a_long_list_comes_after_it() -> None:
    assert read('{"total": 1, "data": [1, 2], "errors": null}') == [
        Item(line=1, list_name="data", value=1),
        Item(line=1, list_name="data", value=2),
        Item(line=1, list_name=None, value={"total": 1, "errors": None}, is_rest=True),
    ]


def test_a_document_without_a_long_list_is_one_item() -> None:
    assert read('{"spans": [1], "data": null}') == [
        Item(line=1, list_name=None, value={"spans": [1], "data": None})
    ]


def test_items_know_their_line() -> None:
    text = '{"data": [\n 1,\n\n {"a":\n 2}\n]}\n{"data": [3]}'

    assert [item.line for item in read(text)] == [2, 4, 7]


def test_a_broken_line_costs_no_other_line() -> None:
    text = '{"data": [1]}\n{"data": [2, oh]}\n{"data": [3]}\nhello\n{"data": [4]}\n'

    assert read_values(text) == [
        1,
        2,
        Fault(line=2, reason="not JSON: Expecting value"),
        3,
        Fault(line=4, reason="neither OTLP nor Jaeger: no JSON object"),
        4,
    ]


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_line_cut_off_costs_no_other_line(size: int) -> None:
    text = '{"data": [{"a": "b\n{"data": [2, {"c": 1}\n{"data": [3]}\n'

    assert read_values(text, size) == [
        Fault(line=1, reason="not JSON: Invalid control character at"),
        2,
        {"c": 1},
        Fault(line=3, reason="not JSON: ',' expected, not '{'"),
        3,
    ]


@pytest.mark.parametrize("text", ['{"data": [1, {"a": 2', '{"data": [1, "a', '{"data": [1'])
def test_what_stands_before_the_cut_is_kept(text: str) -> None:
    assert read_values(text) == [
        1,
        Fault(line=1, reason="it is cut off: the file ends in its middle"),
    ]


def test_the_reason_why_the_bytes_end_is_told() -> None:
    def broken() -> Iterator[bytes]:
        yield b'{"data": [1, {"a":'
        raise OtlpError("the gzip ends too early")

    assert list(JsonReader(broken()).items())[-1] == Fault(
        line=1, reason="the gzip ends too early"
    )


@pytest.mark.parametrize(
    "text",
    ['{"data": [' + "[" * 200_000, '{"data": [' + "9" * 10_000 + "]}"],
    ids=["brackets", "digits"],
)
def test_what_json_allows_and_nobody_can_hold_is_a_fault(text: str) -> None:
    [fault] = read(text, 1000)

    assert isinstance(fault, Fault)


def test_a_byte_order_mark_is_passed_over() -> None:
    assert read_values('\ufeff{"data": [1]}') == [1]
