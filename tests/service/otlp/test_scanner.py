"""OTLP read by compiled code, beside the decoder and the plain way of taking content out."""

from collections.abc import Callable
from itertools import chain
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from latencytrace.errors import OtlpError
from latencytrace.model import semconv
from latencytrace.service.otlp import plain_text, scanner
from latencytrace.service.otlp.block_builder import span_block_of
from latencytrace.service.otlp.content_keys import CONTENT, KNOWN, STRICT, WORD, WORDS
from latencytrace.service.otlp.mending.account import Mending
from latencytrace.service.otlp.messages import MOST_MESSAGES, message_of, purify
from latencytrace.service.otlp.scanner import scanned, scanned_by_core
from latencytrace.service.otlp.span_block import SpanBlock
from tests.service.otlp.generated_requests import any_text, requests, texts
from tests.support.builders.spans.otlp_messages import one_span, otlp
from tests.support.compiled import COMPILED
from tests.support.over_all import over_all

pytestmark = COMPILED


def told(block: SpanBlock) -> object:
    """All that a block says, as texts: True is no 1 in them, and NaN is itself."""
    links = [
        (block.word(state), block.attributes(first, count))
        for _, _, state, first, count, _ in block.links.tolist()
    ]
    beside = [
        (
            block.word(span["state"]),
            block.word(span["message"]),
            block.word(block.scopes[span["scope"]]["version"]),
            block.attributes(*block.resources[span["resource"]].tolist()[:2]),
            [
                (block.word(key), form)
                for _, _, key, form, _ in block.pairs[span["pairs"] :][
                    : span["pair_count"]
                ].tolist()
            ],
        )
        for span in block.table
    ]
    return (block.rejected, repr(block.spans()), repr(beside), repr(links))


def plainly(sent: bytes, *, capture_content: bool) -> SpanBlock:
    """What is in a request, the plain way."""
    message = message_of(sent)
    purify(message, capture_content=capture_content)
    return span_block_of(message)


MODES = pytest.mark.parametrize("capture_content", [False, True], ids=["redacted", "as sent"])
MANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@MODES
@MANY
@given(request=requests)
def test_both_ways_read_the_same(
    request: ExportTraceServiceRequest, *, capture_content: bool
) -> None:
    sent = request.SerializeToString()

    block = scanned_by_core([sent], capture_content=capture_content)

    assert block is not None
    assert told(block) == told(plainly(sent, capture_content=capture_content))


def changed(sent: bytes, at: int, how: int, other: bytes) -> bytes:
    """Bytes with something wrong in them."""
    at %= len(sent) + 1
    match how % 6:
        case 0:
            return sent[:at]
        case 1 if at < len(sent):
            return sent[:at] + bytes((sent[at] ^ 1 << how // 6 % 8,)) + sent[at + 1 :]
        case 2:
            return sent[:at] + other + sent[at:]
        case 3:
            return sent + other
        case 4:
            return sent[:at] + sent[at + 1 :]
        case _:
            return sent[: at // 2] + sent[at // 2 : at] * 2 + sent[at:]


ODD_PIECES = st.sampled_from(
    [b"", b"\x00", b"\xff", b"\x80\x01", b"\x0b\x0c", b"\x7a\x00", b"\x85\x01\x00\x00\x00\x01",
     b"\xa2\x1f\x03abc", b"\x92\x03\x02hi", b"\xff" * 10, b"\x0a\x00", b"\x12\x00", b"\x22\x03abc",
     b"\x0a\x80\x80\x00", b"\x30\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x98\x01\x05"]
) | st.binary(max_size=6)  # fmt: skip


@MODES
@MANY
@given(
    request=requests,
    changes=st.lists(
        st.tuples(st.integers(0, 10_000), st.integers(0, 47), ODD_PIECES), min_size=1, max_size=3
    ),
)
def test_both_ways_agree_about_bytes_with_something_wrong_in_them(
    request: ExportTraceServiceRequest,
    changes: list[tuple[int, int, bytes]],
    *,
    capture_content: bool,
) -> None:
    sent = request.SerializeToString()
    for change in changes:
        sent = changed(sent, *change)
    try:
        expected = told(plainly(sent, capture_content=capture_content))
    except OtlpError:
        expected = None

    block = scanned_by_core([sent], capture_content=capture_content)

    if block is not None:
        assert told(block) == expected


@MANY
@given(one=requests, other=requests)
def test_requests_laid_end_to_end_are_one(
    one: ExportTraceServiceRequest, other: ExportTraceServiceRequest
) -> None:
    sent = [one.SerializeToString(), other.SerializeToString()]

    for laid in (sent, [b"".join(sent)]):
        block = scanned_by_core(laid, capture_content=False)

        assert block is not None
        assert told(block) == told(plainly(b"".join(sent), capture_content=False))


def test_a_request_does_not_go_on_in_the_next_one() -> None:
    whole, torn = otlp(one_span()), otlp(one_span())[:-4]

    assert scanned_by_core([whole + torn[:4] + whole], capture_content=False) is None
    assert scanned_by_core([torn, whole[:4] + whole], capture_content=False) is None
    assert scanned_by_core([torn, whole], capture_content=False) is None


@MANY
@given(
    request=requests,
    bad=st.lists(
        st.sampled_from(
            [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf4\x90",
             b"\x80a", b"\xe0\x80\x80", "é😀".encode()]
        )
        | st.binary(min_size=1, max_size=6),
        min_size=1, max_size=4,
    ),
)  # fmt: skip
def test_both_ways_mend_the_same(request: ExportTraceServiceRequest, bad: list[bytes]) -> None:
    texts = [text.encode() for text in ("http://", "ValueError", "Timeout", "{id}", "http.route")]
    sent = request.SerializeToString()
    for text, one in zip(texts, bad, strict=False):
        sent = sent.replace(text, (one * len(text))[: len(text)])
    mending, plain_mending = Mending(), Mending()
    message = message_of(sent, plain_mending)
    purify(message, capture_content=True)

    block = scanned_by_core([sent], capture_content=True, mending=mending)

    if block is not None:
        assert told(block) == told(span_block_of(message))
        assert mending == plain_mending


def nested(depth: int) -> bytes:
    """A request with lists in lists."""
    request = ExportTraceServiceRequest.FromString(otlp(one_span()))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    value = span.attributes.add(key="gen_ai.response.finish_reasons").value
    for _ in range(depth):
        value = value.array_value.values.add()
    value.string_value = "stop"
    return request.SerializeToString()


@pytest.mark.parametrize("depth", [0, 1, 2, 30, 46, 47, 48, 60])
@MODES
def test_lists_are_as_deep_as_the_decoder_allows(depth: int, *, capture_content: bool) -> None:
    sent = nested(depth)
    try:
        expected = told(plainly(sent, capture_content=capture_content))
    except OtlpError:
        expected = None

    block = scanned_by_core([sent], capture_content=capture_content)

    assert block is None or told(block) == expected


KINDS: dict[str, Callable[[str], str]] = {
    "gen_ai.request.model": plain_text.known,
    "http.route": plain_text.long,
    "user_agent.original": plain_text.long,
    "url.full": plain_text.address,
    "mine": plain_text.unknown,
    semconv.INTERVALS: plain_text.packed,
    "gen_ai.prompt.name": plain_text.word,
    "compute_tokens": plain_text.number,
    "gen_ai.prompt": plain_text.content,
    "langfuse.observation.usage_details": plain_text.counts,
}


@given(key=st.sampled_from(list(KINDS)), said=texts | st.text(max_size=40) | any_text)
@example(key="mine", said="[::1]:80")
@example(key="url.full", said=" data:x")
@example(key="http.route", said="/items/{id}")
@example(key="http.route", said=300 * "x")
@example(key="gen_ai.request.model", said=300 * "x")
def test_texts_are_taken_out_by_the_rule_for_their_key(key: str, said: str) -> None:
    block = scanned(otlp(one_span(attributes={key: said})), capture_content=False)

    kept = KINDS[key](said) if said != semconv.CONTENT_REMOVED else said
    assert block.spans()[0].attributes == {key: kept}


SECRETS = ("sk-abcdefgh1", "r8-abcdefg1", "hf_abcdefgh", "AKIAABCDEFGH", "eyJabcdefgh", "pwd:x")
PARTS = (
    *(pattern.replace("*", "") for pattern in (*chain(*CONTENT.values()), *STRICT, *WORD)),
    *WORDS, *KNOWN, *SECRETS, "Api_Key", "sessionToken", "passwd", "tokens", "token_count", "ab",
    " ", "é", 130 * "x",
)  # fmt: skip
keys = st.lists(st.sampled_from(PARTS) | st.text("0af.-_:/%Z", max_size=6), max_size=3)


@settings(max_examples=500, deadline=None)
@given(parts=keys, between=st.sampled_from(["", ".", "_"]), upper=st.booleans())
def test_any_key_has_the_rule_that_the_plain_way_gives_it(
    parts: list[str], between: str, *, upper: bool
) -> None:
    key = between.join(parts)
    key = key.upper() if upper else key
    sent = otlp(one_span(attributes={key: "some words", "thread.id": 1, f"{key}.": 7}))

    block = scanned_by_core([sent], capture_content=False)

    assert block is not None
    assert told(block) == told(plainly(sent, capture_content=False))


@over_all("pattern", [*chain(*CONTENT.values()), *STRICT, *WORDS])
def test_each_key_that_is_content_is_told(pattern: str) -> None:
    key = pattern.replace("*", "x")
    sent = otlp(one_span(attributes={key: "some words"}))

    block = scanned_by_core([sent], capture_content=False)

    assert block is not None
    assert told(block) == told(plainly(sent, capture_content=False))


def test_a_key_that_is_forgotten_meanwhile_keeps_its_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Another thread makes room for keys between two looks at them."""
    key = "gen_ai.prompt.forgotten"
    scanned_by_core([otlp(one_span(attributes={key: "some words"}))], capture_content=False)
    telling = scanner._Columns.telling

    def forgetting(*given: Any) -> Any:
        scanner._facts_by_key.clear()
        return telling(*given)

    monkeypatch.setattr(scanner._Columns, "telling", forgetting)
    sent = otlp(one_span(attributes={key: "some words", "new.one": 1}))

    block = scanned_by_core([sent], capture_content=False)

    assert block is not None
    assert told(block) == told(plainly(sent, capture_content=False))


def test_equal_spans_have_one_shape_and_others_another() -> None:
    spans = [
        one_span(
            f"{number:032x}",
            attributes={
                "latencytrace.stage": ("embed", "decode")[number // 3],
                "gen_ai.usage.input_tokens": number,
                f"mine {number}": number,
            },
        )
        for number in range(1, 6)
    ]

    block = scanned_by_core([otlp(*spans)], capture_content=False)

    assert block is not None
    first, second, third, fourth, fifth = block.table["shape"].tolist()
    assert first == second >= 0
    assert third == fourth == fifth >= 0
    assert first != third


def test_a_key_that_comes_twice_has_no_shape() -> None:
    request = ExportTraceServiceRequest.FromString(otlp(one_span(attributes={"mine": 1})))
    span = request.resource_spans[0].scope_spans[0].spans[0]
    span.attributes.add(key="mine").value.int_value = 2

    block = scanned_by_core([request.SerializeToString()], capture_content=False)

    assert block is not None
    assert block.table["shape"].tolist() == [-1]
    assert block.spans()[0].attributes == {"mine": 2}


def sized(tag: int, body: bytes) -> bytes:
    """A field that has a length."""
    size, digits = len(body), [tag]
    while size >= 0x80:
        digits.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes((*digits, size)) + body


def one_post(*spans: bytes) -> bytes:
    return sized(0x0A, sized(0x12, b"".join(sized(0x12, span) for span in spans)))


IDS = sized(0x0A, bytes(range(1, 17))) + sized(0x12, bytes(range(1, 9)))
KEY = sized(0x0A, b"mine")


@MODES
@pytest.mark.parametrize(
    "value",
    [b"\x0a\x7f", sized(0x0A, sized(0x0A, b"\xff"))],
    ids=["a torn list", "a list of no texts"],
)
def test_a_list_of_a_span_without_ids_is_held_to_be_one_all_the_same(
    value: bytes, *, capture_content: bool
) -> None:
    sent = one_post(sized(0x4A, KEY + sized(0x12, sized(0x2A, value))), IDS)

    with pytest.raises(OtlpError):
        scanned(sent, capture_content=capture_content)


@pytest.mark.long
def test_a_list_of_millions_is_refused_before_it_is_decoded() -> None:
    values = b"\x0a\x00" * (MOST_MESSAGES + 1)
    sent = one_post(IDS + sized(0x4A, KEY + sized(0x12, sized(0x2A, values))))

    with pytest.raises(OtlpError, match="smaller batches"):
        scanned(sent, capture_content=False)


def of_a_weak_hash(count: int) -> list[bytes]:
    """Texts whose differences cancel where pieces are multiplied by what everybody knows."""

    def flipped(text: bytes, *places: int) -> bytes:
        return bytes(byte ^ 0x80 if at in places else byte for at, byte in enumerate(text))

    halves = b"abcdefgh", b"ijklmnop"
    pieces = halves[0] + halves[1], flipped(halves[0], 7) + flipped(halves[1], 3, 7)
    digits = range(count.bit_length())
    return [b"".join(pieces[one >> digit & 1] for digit in digits) for one in range(count)]


def test_who_makes_up_texts_of_one_hash_fails() -> None:
    texts = of_a_weak_hash(2000)
    sent = one_post(IDS + b"".join(sized(0x6A, sized(0x0A, text)) for text in texts))

    block = scanned_by_core([sent], capture_content=False)

    assert block is not None
    assert len(block.links) == len(texts)


def test_many_words_are_read() -> None:
    texts = [number.to_bytes(16, "big") for number in range(1, 40_000)]
    sent = one_post(IDS + b"".join(sized(0x6A, sized(0x0A, text)) for text in texts))

    block = scanned_by_core([sent], capture_content=False)

    assert block is not None
    assert told(block) == told(plainly(sent, capture_content=False))
