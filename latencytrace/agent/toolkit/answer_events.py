"""Parts of a streamed answer that carry output: a token's text, never a role or a comment.

Only kinds and counts are read, and nothing of the content is kept. Speed is the point: the
events of one stream begin alike, so once some are parsed, it is enough to see that the next
has its output at the same place (`AnswerStream.chunk_sent`; `bench_stream.py` says what it costs).
"""

import re
from collections.abc import Iterable
from typing import Final

from latencytrace.agent.compiled.core import core

OPAQUE: Final = -1  # not empty, and in no form that we know

_EVENTS: Final = frozenset({b"text/event-stream"})
_LINES: Final = frozenset(
    {b"application/x-ndjson", b"application/jsonl", b"application/stream+json"}
)
_BETWEEN_EVENTS: Final = b"\n\n"  # once line breaks are alike
_BETWEEN_LINES: Final = b"\n"
_LOOKED_AT: Final = 4  # events with output of each choice, until the number of choices is known
_MOST_CHOICES: Final = 128

# The keys that have output in the APIs of OpenAI, Anthropic, Google, Cohere, Ollama and TGI.
_OUTPUT: Final = re.compile(
    rb'("(?:content|reasoning_content|reasoning|thinking|text|arguments|partial_json|refusal'
    rb'|delta|response|transcript|generated_text)"\s*:\s*")(?!")'
)
_REASONING: Final = re.compile(rb'"(?:reasoning_content|reasoning|thinking)"\s*:\s*"(?!")')
_TOOL_CALL: Final = re.compile(rb'"tool_calls"\s*:\s*\[\s*\{|"type"\s*:\s*"tool_use"')
# Events that repeat what has left, or the request.
_REPEATED: Final = re.compile(
    rb'"type"\s*:\s*"[\w.]+\.'
    rb'(?:created|queued|in_progress|added|done|completed|incomplete|failed)"'
)
# Events of a form that we know, which carry no output unless one of the above is in it.
_FRAME: Final = re.compile(
    rb'"(?:choices|usage|error|candidates)"\s*:|"done"\s*:\s*true'
    rb'|"(?:type|event)"\s*:\s*"(?:ping|heartbeat|error|response\.|message_|content_block_)'
)
_DATA: Final = re.compile(rb"(?:^|\n)data:(?! ?(?:\n|\[DONE\]|$))")
_CHOICE: Final = re.compile(rb'"choices"\s*:\s*\[\s*\{[^\[]*?"index"\s*:\s*(\d{1,4})\b')
_TOTAL: Final = re.compile(rb'"(?:completion_tokens|output_tokens|eval_count)"\s*:\s*(\d{1,9})\b')
_HIDDEN: Final = re.compile(rb'"reasoning_tokens"\s*:\s*(\d{1,9})\b')


class AnswerEvents:
    """Counts the events with output in an answer's chunks."""

    __slots__ = (
        "_between",
        "_hidden",
        "_known",
        "_left_to_look",
        "_reasoning_left",
        "_total",
        "begins",
        "choices",
        "key",
        "key_at",
    )

    def __init__(self, content_type: bytes = b"") -> None:
        mime = content_type.partition(b";")[0].strip().lower()
        self._between: bytes | None = None  # None: any bytes are output
        if mime in _EVENTS:
            self._between = _BETWEEN_EVENTS
        elif mime in _LINES:
            self._between = _BETWEEN_LINES
        self._left_to_look = _LOOKED_AT
        # The key that output stood under last, its place in the event and that of the output;
        # 0: each event has to be parsed.
        self.key = b""
        self.key_at = self.begins = 0
        self._known = False  # its form
        self.choices = 1
        self._total: int | None = None  # output tokens, as the answer itself tells
        self._hidden = 0
        self._reasoning_left = False

    @property
    def plain(self) -> bool:
        """True where any byte is output."""
        return self._between is None

    @property
    def tokens(self) -> int | None:
        """Count the tokens that the answer says it has, without those of hidden reasoning."""
        if self._total is None or self._reasoning_left:
            return self._total
        return max(self._total - self._hidden, 0)

    def read(self, body: bytes) -> int:
        """Count the events with output in a chunk; `OPAQUE`: it has something unreadable."""
        between = self._between
        if between is None:
            return OPAQUE if body else 0
        found = self._alike(body, between) if self.begins else 0
        if found > 0:
            return found
        found = opaque = 0
        if b"\r" in body:
            body = body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        for event in body.split(between):
            if not event:  # behind the last
                continue
            kind = self._event(event, lines=between == _BETWEEN_LINES)
            if kind > 0:
                found += 1
            elif kind:
                opaque = OPAQUE
        return found or opaque

    def _alike(self, body: bytes, between: bytes) -> int:
        """Count the events with output under the key of those before, wherever that stands."""
        found = body.count(self.key) - body.count(self.key + b'"')
        if found > 0:
            key_at = body.find(self.key)
            before = body[:key_at]
            if between not in before and b"\r\n\r\n" not in before:  # it is in the first event
                self.key_at, self.begins = key_at, key_at + len(self.key)
        return found

    def _event(self, event: bytes, *, lines: bool) -> int:
        if not (event.strip() if lines else _DATA.search(event)):
            return 0
        total = _TOTAL.findall(event) if b"_tokens" in event or b"eval_count" in event else ()
        if total:
            self._total = int(total[-1])
            self._hidden = sum(map(int, _HIDDEN.findall(event)[:1]))
        if b'"type"' in event and _REPEATED.search(event):
            return 0
        output = _OUTPUT.search(event)
        if output is not None or _TOOL_CALL.search(event):
            self._learn(event, output)
            return 1
        if self._known or _FRAME.search(event):
            return 0
        return OPAQUE

    def _learn(self, event: bytes, output: re.Match[bytes] | None) -> None:
        """Learn from an event with output; once enough are seen, where to look for it."""
        self._known = True
        if (b"reasoning" in event or b"thinking" in event) and _REASONING.search(event):
            self._reasoning_left = True
        choice = _CHOICE.search(event)
        if choice is not None and int(choice[1]) >= self.choices:
            self.choices = min(int(choice[1]) + 1, _MOST_CHOICES)
            self._left_to_look = _LOOKED_AT * self.choices
        self._left_to_look -= 1
        if output is not None and self._left_to_look <= 0:
            self.key, (self.key_at, self.begins) = output[1], output.span(1)


if core is not None:
    core.bind_events(AnswerEvents)


def events_of(headers: Iterable[tuple[bytes, bytes]]) -> AnswerEvents | None:
    """Return the counter of an answer with these headers; None: it is sent in one piece."""
    content_type = b""
    for name, value in headers:
        lowered = name.lower()
        if lowered == b"content-length":
            return None
        if lowered == b"content-encoding" and value.lower() != b"identity":
            return AnswerEvents()
        if lowered == b"content-type":
            content_type = value
    return AnswerEvents(content_type)
