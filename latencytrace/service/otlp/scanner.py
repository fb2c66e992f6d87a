"""OTLP's bytes into columns of spans, and content out of them: the fast way and the plain one.

The plain way serves where nothing is compiled, and for what is odd; of decoding alone it makes
some twenty times as much (`tests/benchmarks/bench_ingest.py`).

The result is that of `redaction` on the decoded message.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
from google.protobuf.message import DecodeError
from numpy.typing import NDArray
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import ArrayValue, KeyValueList
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from latencytrace.model import semconv
from latencytrace.service.otlp import plain_text
from latencytrace.service.otlp.block_builder import (
    CLOCK_NAMES,
    resource_words,
    span_block_of,
)
from latencytrace.service.otlp.compiled import telling
from latencytrace.service.otlp.compiled.core import core
from latencytrace.service.otlp.content_keys import LISTED, LONGEST_KEY, Kind
from latencytrace.service.otlp.mending.account import Mend, Mending
from latencytrace.service.otlp.messages import (
    MOST_MESSAGES,
    MOST_PARTS,
    SPAN_ID_BYTES,
    TRACE_ID_BYTES,
    message_of,
    purify,
)
from latencytrace.service.otlp.redaction import (
    KINDS,
    NAMES,
    STATES,
    STATUSES,
    Texts,
    is_plain,
    texts_under,
)
from latencytrace.service.otlp.shapes import MARK, SEED, SHAPES, key_code
from latencytrace.service.otlp.span_block import (
    EVENT,
    LINK,
    PAIR,
    RESOURCE,
    SCOPE,
    SPAN,
    WORD,
    Records,
    SpanBlock,
    chained,
)
from latencytrace.service.otlp.values import Form, flat_text
from latencytrace.service.otlp.wire_parts import has_more_parts

_LONGEST_KNOWN: Final = 1024  # bytes of what is remembered
_DEEPEST_BYTES: Final = 160  # a list of fewer bytes is not too deep for the decoder
_RULES: Final[Sequence[Texts]] = tuple(KINDS.values())
_RULE_NUMBERS: Final = {id(texts): number for number, texts in enumerate(_RULES)}


def scanned(plain: bytes, *, capture_content: bool, mending: Mending | None = None) -> SpanBlock:
    """The spans of a request in protobuf, without their content.

    Args:
        plain: The request, not compressed.
        mending: The account of what is mended; None: nothing is.

    Raises:
        OtlpError: It is not a trace request, or has more parts than any batch of spans.
    """
    block = scanned_by_core([plain], capture_content=capture_content, mending=mending)
    if block is not None:
        return block
    message = message_of(plain, mending)
    if mending is not None and mending.count:
        return scanned(message.SerializeToString(), capture_content=capture_content)
    purify(message, capture_content=capture_content)
    return span_block_of(message)


def scanned_by_core(
    requests: Sequence[bytes], *, capture_content: bool, mending: Mending | None = None
) -> SpanBlock | None:
    """The same of several requests together by compiled code.

    Returns:
        None: There is none, or one of the requests is for the plain way.
    """
    plain = b"".join(requests)
    ends = np.cumsum([len(one) for one in requests])
    records = None if core is None else core.scan(plain, ends, SEED, MOST_PARTS + 1)
    if records is None:
        return None
    columns = _Columns(plain, records)
    if columns.may_have_too_many_parts() or columns.has_too_many_messages(plain):
        return None
    if not columns.canonical() or (columns.mends and mending is None):
        return None
    if mending is not None and columns.mends:
        mending.values[Mend.TEXT] += columns.mends
        mending.resources.update(columns.mended_resources)
    columns.find_keys()
    if not capture_content:
        _Redaction(columns).redact()
    return columns.block(capture_content=capture_content)


class _KeyFacts(NamedTuple):
    """Facts about a key."""

    rule: int
    code: int
    of_resource: str  # its name, if a resource's columns are made of it


_RESOURCE_KEYS = frozenset(
    {semconv.SERVICE_NAME, semconv.SERVICE_INSTANCE_ID, semconv.SERVICE_VERSION, *CLOCK_NAMES}
)


K = TypeVar("K")
V = TypeVar("V")
_MOST_KNOWN: Final = 8192
_facts_by_key: dict[bytes, _KeyFacts] = {}  # of keys seen; another thread may clear it
_known_resources: dict[tuple[bytes, bool], Sequence[bytes]] = {}  # words, likewise


def _facts(raw: bytes, *, tells: bool) -> _KeyFacts:
    """The facts of a key.

    Args:
        tells: Its kind may be another than unknown, even if it is not listed.
    """
    key = raw.decode()
    texts = texts_under(key) if tells or key in LISTED else KINDS[Kind.UNKNOWN]
    facts = _KeyFacts(
        rule=_RULE_NUMBERS[id(texts)],
        code=key_code(raw),
        of_resource=key if key in _RESOURCE_KEYS else "",
    )
    _remember(_facts_by_key, raw, facts, len(raw))
    return facts


def _remember(known: dict[K, V], key: K, value: V, size: int) -> None:
    """Keep what is known of bytes, if they are not many; another thread may do so, too."""
    if size <= _LONGEST_KNOWN:
        if len(known) >= _MOST_KNOWN:
            known.clear()
        known[key] = value


class _Columns:
    """A request's columns while they are worked on.

    Args:
        found: What compiled code found in it, see `core_scan` in `compiled/wire.c`.
    """

    def __init__(self, plain: bytes, found: Sequence[Any]) -> None:
        (
            spans, pairs, events, links, resources, scopes, words, _, self.rejected, nested,
            mended, mended_resources, self.mends,
        ) = found  # fmt: skip
        self.texts = b"".join((plain, mended, MARK))
        self.mark_at = len(plain) + len(mended)
        self.mended_resources: list[int] = np.frombuffer(mended_resources, np.int64).tolist()
        self.more = bytearray()  # texts that follow
        self.words: Records = np.frombuffer(words, WORD)
        self.new_words: list[tuple[int, int, int]] = []
        self.numbers: dict[bytes, int] = {b"": 0}  # of words made here
        self.pairs: Records = np.frombuffer(pairs, PAIR)
        self.spans: Records = np.frombuffer(spans, SPAN)
        self.events: Records = np.frombuffer(events, EVENT)
        self.links: Records = np.frombuffer(links, LINK)
        self.resources: Records = np.frombuffer(resources, RESOURCE)
        self.scopes: Records = np.frombuffer(scopes, SCOPE)
        self._has_nested = nested > 0
        self.facts: dict[int, _KeyFacts] = {}  # by word

    def may_have_too_many_parts(self) -> bool:
        """Tell whether `messages` may refuse the request; rejected spans' parts are not known."""
        if self.mark_at <= 2 * MOST_PARTS:  # no part is shorter
            return False
        parts = self.resources, self.scopes, self.spans, self.pairs, self.events, self.links
        return self.rejected > 0 or sum(map(len, parts)) > MOST_PARTS

    def has_too_many_messages(self, plain: bytes) -> bool:
        """Tell whether lists and maps hold more than the decoder is given (see `messages`)."""
        return self._has_nested and has_more_parts(plain, ExportTraceServiceRequest, MOST_MESSAGES)

    def canonical(self) -> bool:
        """Write lists and maps as the decoder would; False: it cannot decode one."""
        if not self._has_nested:
            return True
        forms = self.pairs["form"]
        for row in np.flatnonzero((forms == Form.ARRAY) | (forms == Form.MAP)).tolist():
            raw = self.text_of(row)
            form = int(forms[row])
            decode = _known_canonical if len(raw) <= _LONGEST_KNOWN else _canonical
            written = decode(form, raw)
            if written is None:
                return False
            if written != raw:
                self.put(row, written)
        return True

    def find_keys(self) -> None:
        """Find out what is known of each key."""
        words = _distinct(self.pairs["key"], len(self.words))
        places = self.words[words].tolist()
        keys = {
            word: self.texts[at : at + size]
            for word, (at, size, _) in zip(words, places, strict=True)
        }
        found = {word: _facts_by_key.get(key) for word, key in keys.items()}
        new = [word for word, known in found.items() if known is None]
        telling = (
            set(self.telling(_KEY_FILTER, np.array(new), LONGEST_KEY).tolist()) if new else ()
        )
        for word, known in found.items():
            key = keys[word]
            self.facts[word] = known or _facts(key, tells=not key or word in telling)
        self.words["code"][words] = [self.facts[word].code for word in words]

    def telling(self, rules: object, words: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
        """Those words that a machine tells of (see `compiled/telling.py`), and longer ones."""
        asked = np.empty(len(words), np.bool_)
        core.tells(rules, self.texts, self.words, words, longest, asked)
        return words[asked]

    def block(self, *, capture_content: bool) -> SpanBlock:
        """The columns, with the shapes of the spans."""
        self._tell_resources(capture_content=capture_content)
        texts = self.texts + bytes(self.more)
        self.words = chained([self.words, np.array(self.new_words, WORD)])
        SHAPES.latest.find(self._assembled(texts))
        return self._assembled(self._gathered(texts))

    def _assembled(self, texts: bytes) -> SpanBlock:
        return SpanBlock(
            texts=texts,
            words=self.words,
            pairs=self.pairs,
            table=self.spans,
            events=self.events,
            links=self.links,
            resources=self.resources,
            scopes=self.scopes,
            rejected=self.rejected,
        )

    def _gathered(self, texts: bytes) -> bytes:
        """The texts without those that nothing refers to any more: content may be among them."""
        gathered: bytes = core.gather(
            texts, self.words, self.pairs, self.spans, self.events, self.links, self.resources,
            self.scopes,
        )  # fmt: skip
        return gathered

    def _tell_resources(self, *, capture_content: bool) -> None:
        """Fill in the words of resources; the same bytes have the same ones."""
        known: dict[bytes, Sequence[int]] = {}
        words = []
        for first, count, at, end, *_ in self.resources.tolist():
            raw = self.texts[at:end]
            if raw not in known:
                found = _known_resources.get((raw, capture_content))
                if found is None:
                    found = self._resource_words(first, count)
                    _remember(_known_resources, (raw, capture_content), found, len(raw))
                known[raw] = list(map(self.word, found))
            words.append(known[raw])
        columns = np.array(words, np.int32).reshape(-1, 4)
        for place, name in enumerate(("service", "instance", "version", "host")):
            self.resources[name] = columns[:, place]

    def _resource_words(self, first: int, count: int) -> Sequence[bytes]:
        named: dict[str, str] = {}
        for value, size, key, form, _ in self.pairs[first : first + count].tolist():
            facts = self.facts.get(key)  # none of a key that was removed
            if facts is not None and facts.of_resource:
                text = self.text(value, size) if form in _TEXTS else b""
                named.setdefault(facts.of_resource, flat_text(form, value, text))
        return [one.encode() for one in resource_words(named)]

    # Texts and words

    def text(self, at: int, size: int) -> bytes:
        beyond = at - len(self.texts)
        if beyond >= 0:
            return bytes(self.more[beyond : beyond + size])
        return self.texts[at : at + size]

    def text_of(self, row: int) -> bytes:
        value, size, *_ = self.pairs[row].item()
        return self.text(value, size)

    def put(self, row: int, text: bytes) -> None:
        """Give a pair another text."""
        self.pairs[row]["value"] = len(self.texts) + len(self.more)
        self.pairs[row]["size"] = len(text)
        self.more += text

    def word_bytes(self, word: int) -> bytes:
        at, size, _ = self.words[word].item()
        return self.text(at, size)

    def word(self, text: bytes) -> int:
        """The number of a word that is made here."""
        number = self.numbers.get(text)
        if number is None:
            number = self.numbers[text] = len(self.words) + len(self.new_words)
            at = len(self.texts) + len(self.more)
            self.new_words.append((at, len(text), key_code(text)))
            self.more += text
        return number


class _Redaction:
    """Takes the content out of columns, as `redaction.redact` does."""

    def __init__(self, columns: _Columns) -> None:
        self._columns = columns

    def redact(self) -> None:
        """Do it."""
        mark = self._columns.word(MARK)
        rules = np.zeros(len(self._columns.words), np.uint8)
        facts = self._columns.facts
        rules[list(facts)] = [one.rule for one in facts.values()]
        asked = np.empty(len(self._columns.pairs), np.int64)
        count = core.judge(
            _FILTER, self._columns.texts, self._columns.pairs, rules,
            self._columns.mark_at, len(MARK), mark, asked,
        )  # fmt: skip
        for row in asked[:count].tolist():
            self._ask(row, _RULES[facts[int(self._columns.pairs[row]["key"])].rule], mark)
        self._redact_words()

    def _ask(self, row: int, texts: Texts, mark: int) -> None:
        """Decide about a text or a list that may be content."""
        raw = self._columns.text_of(row)
        if self._columns.pairs[row]["form"] == Form.ARRAY:
            takes = _known_plain if len(raw) <= _LONGEST_KNOWN else _is_plain_list
            plain = None if takes(raw) else plain_text.MARK
        else:
            plain = texts[raw.decode()]
        if plain is not None:
            self._columns.pairs[row]["form"] = Form.STRING
            self._columns.put(row, plain.encode())
            if not texts.takes_key:
                self._columns.pairs[row]["key"] = mark

    def _redact_words(self) -> None:
        spans, events = self._columns.spans, self._columns.events
        links, scopes = self._columns.links, self._columns.scopes
        names = [(spans, "name"), (events, "name"), (scopes, "name"), (scopes, "version")]
        self._replace(
            names,
            NAMES,
            lambda words: self._columns.telling(_FILTER, words, plain_text.NAME_CHARACTERS),
        )
        self._replace([(spans, "state"), (links, "state")], STATES, np.asarray)
        self._replace([(spans, "message")], STATUSES, np.asarray)
        ids = (("trace", TRACE_ID_BYTES), ("span", SPAN_ID_BYTES))
        for column, size in ids if len(links) else ():
            numbers = links[column]
            numbers[self._columns.words["size"][numbers] != size] = 0

    def _replace(
        self,
        places: Sequence[tuple[Records, str]],
        texts: Texts,
        chosen: Callable[[NDArray[np.int64]], NDArray[np.int64]],
    ) -> None:
        """Put other words in the place of some."""
        seen = np.zeros(len(self._columns.words), np.bool_)
        for records, column in places:
            if len(records):
                seen[records[column]] = True
        seen[0] = False
        replaced: dict[int, int] = {}
        words = np.flatnonzero(seen)
        for word in chosen(words).tolist() if len(words) else ():
            plain = texts[self._columns.word_bytes(word).decode()]
            if plain is not None:
                replaced[word] = self._columns.word(plain.encode())
        if replaced:
            numbers = np.arange(len(self._columns.words), dtype=np.int32)
            numbers[list(replaced)] = list(replaced.values())
            for records, column in places:
                records[column] = numbers[records[column]]


_TEXTS = frozenset({Form.STRING, Form.ARRAY, Form.MAP, Form.BYTES})


def _distinct(numbers: NDArray[np.int32], most: int) -> list[int]:
    seen = np.zeros(most, np.bool_)
    seen[numbers] = True
    found: list[int] = np.flatnonzero(seen).tolist()
    return found


# Lists and maps


def _canonical(form: int, raw: bytes) -> bytes | None:
    """Return what the decoder writes of a list or a map; None: it is none."""
    kind = ArrayValue if form == Form.ARRAY else KeyValueList
    try:
        value = kind.FromString(raw)
        if len(raw) > _DEEPEST_BYTES:
            _wrapped(form, raw)
    except DecodeError:
        return None
    value.DiscardUnknownFields()
    return value.SerializeToString()


def _wrapped(form: int, raw: bytes) -> None:
    """Decode it where it stands, for the decoder's limit of depth counts from the outside."""
    span = ProtoSpan()
    event = span.events.add()
    pair = event.attributes.add()
    value = pair.value.array_value if form == Form.ARRAY else pair.value.kvlist_value
    value.MergeFromString(raw)
    request = ExportTraceServiceRequest()
    request.resource_spans.add().scope_spans.add().spans.append(span)
    ExportTraceServiceRequest.FromString(request.SerializeToString())


_known_canonical = lru_cache(maxsize=4096)(_canonical)


def _is_plain_list(raw: bytes) -> bool:
    return is_plain(ArrayValue.FromString(raw).values)


_known_plain = lru_cache(maxsize=4096)(_is_plain_list)


def _filter(machine: telling.Machine) -> object:
    """The rules in the order of `KINDS`, for compiled code."""
    hows = {
        Kind.KNOWN: (_PLAIN, plain_text.KNOWN_CHARACTERS),
        Kind.LONG: (_PLAIN, plain_text.LONG_CHARACTERS),
        Kind.ADDRESS: (_PLAIN, plain_text.ADDRESS_CHARACTERS),
        Kind.PACKED: (_LETTERS_ALONE, plain_text.PACKED_CHARACTERS),
        Kind.UNKNOWN: (_NO_JSON, plain_text.UNKNOWN_BYTES),
        **dict.fromkeys((Kind.CONTENT, Kind.STRICT, Kind.NAMELESS), (_ALWAYS_CONTENT, 0)),
    }
    how, longest = zip(*(hows.get(kind, (_ASK, 0)) for kind in KINDS), strict=True)
    packed = np.zeros(256, np.bool_)
    packed[[byte for byte in range(0x80) if plain_text.packed(chr(byte)) == chr(byte)]] = True
    return core.filter(
        np.array(how, np.uint8),
        np.array(longest, np.int64),
        np.array([texts.takes_numbers for texts in _RULES]),
        np.array([texts[""] is None for texts in _RULES]),
        np.array([texts.takes_lists for texts in _RULES]),
        np.array([texts.takes_key for texts in _RULES]),
        *machine,
        packed,
    )


# What a rule does with texts (see `compiled/content.c`).
_ALWAYS_CONTENT, _ASK, _PLAIN, _NO_JSON, _LETTERS_ALONE = range(5)
_FILTER: Final = None if core is None else _filter(telling.of_texts())
_KEY_FILTER: Final = None if core is None else _filter(telling.of_keys())
