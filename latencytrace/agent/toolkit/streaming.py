"""Times at which the tokens of an answer were known, and left for the caller."""

import asyncio.coroutines
import inspect
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from opentelemetry.context import create_key, get_value

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.compiled.core import core
from latencytrace.agent.timing.intervals import HELD as HELD_SENDS
from latencytrace.agent.timing.intervals import TIME_BYTES, Stages, attribute_of, fold
from latencytrace.agent.toolkit.answer_events import OPAQUE, AnswerEvents, events_of
from latencytrace.agent.toolkit.token_times import HELD, TokenRecorder
from latencytrace.model import semconv
from latencytrace.model.attributes import AttributeValue
from latencytrace.model.stage import Stage

ANSWER: Final = create_key("latencytrace.answer")  # in the context of a request: it or its maker
HELD_BYTES: Final = 1024  # of a chunk; a longer one is read at once
_VALUES: Final = 4  # of a chunk that is held
_MOST_KEPT: Final = 1000  # chunks that the compiled core keeps, before neighbours are merged
MOST_HELD: Final = 64 * _VALUES
_QUOTE = b'"'
_NEVER = 1 << 62
_PLAIN_TEXT = AnswerEvents()  # it learns nothing, so one serves all


class ReadAnswer:
    """The answer of one request while it is streamed, as far as it was read.

    A server's chunk need not hold a token: it may be a role, or a comment that keeps the
    connection open. In a form that we know (server-sent events or lines of JSON with the
    output's keys) the chunk tells. In any other the model says when it has made a token, and
    the next chunk that is handed to the server and not empty is the one that carries it; what a
    model makes while a chunk is on its way goes with the next.
    """

    __slots__ = (
        "_events",
        "_first_body_ns",
        "_first_known",
        "_first_read",
        "_fold_at",
        "_more",
        "_note",
        "_open",
        "_plain_over",
        "_sent",
        "_times",
        "carried",
        "known",
    )

    def __init__(self) -> None:
        self.known = 0  # tokens that models have made
        self.carried = 0  # how many of those have left; 0: none
        self._sent = TokenRecorder()
        self._times = self._sent.times
        self._note = self._times.append
        self._fold_at = HELD
        self._events = _PLAIN_TEXT
        self._open = True  # chunks are counted: it is no answer in one piece, its caller is there
        self._plain_over = _NEVER  # in plain text, so many have left; a chunk with more has one
        self._first_read = 0  # events with output in the first packet that left
        self._more = 0  # those in all packets beyond one in each
        self._first_known = 0  # tokens that had been made when the first packet left
        self._first_body_ns: int | None = None

    @property
    def streams(self) -> bool:
        """Tell whether something of it has left, so that what follows is not the whole answer."""
        return self._first_read > 0 or self._first_body_ns is not None

    def begun(self, headers: Iterable[tuple[bytes, bytes]]) -> None:
        self.begun_as(events_of(headers))

    def begun_as(self, events: AnswerEvents | None) -> None:
        """Note the form of its parts; None: it comes in one piece."""
        self._open = events is not None
        self._events = events or self._events

    def left(self) -> None:
        """Note that the caller has left: what is sent from now on does not reach it."""
        self._open = False
        self.carried, self._plain_over = self._all_carried, _NEVER
        self._events.begins = 0

    def chunk_sent(self, body: bytes, known: int, sent_ns: int) -> None:
        """Note that a chunk has been sent.

        Args:
            known: What `known` was when it was handed to the server.
            sent_ns: When it had left, monotonic.
        """
        if known > self._plain_over and body:
            self._plain_over = known
            self._note(sent_ns)
            if known >= self._fold_at:  # so that no more than so many chunks came since
                self._sent.fold()
                self._fold_at = known + HELD
            return
        events = self._events
        begins = events.begins
        if not (
            begins
            and body[events.key_at : begins] == events.key
            and body[begins : begins + 1] not in _QUOTE
            and len(body) < begins << 1
        ):  # else one event, with output where this stream's events have it
            read = self._output_in(body, known, sent_ns)
            if not read:
                return
            self._more += read - 1
        self.carried = known
        times = self._times
        times.append(sent_ns)
        if len(times) >= HELD:
            self._sent.fold()

    def _output_in(self, body: bytes, known: int, sent_ns: int) -> int:
        """Return how many events of a chunk have output."""
        if not self._open:
            return 0
        read = self._events.read(bytes(body))  # it may be a view
        if read == OPAQUE:
            # Without a new token it may hold one that went past the chunk before.
            if known <= self._all_carried and self._packets >= known:
                if not known and self._first_body_ns is None:
                    self._first_body_ns = sent_ns
                return 0
            read = 1
            if self._events.plain:
                self._plain_over = known
        if read and not self._first_read:
            self._first_known, self._first_read = known, read
        return read

    @property
    def _all_carried(self) -> int:
        """Return how many of the tokens made have left."""
        return self.carried if self._plain_over == _NEVER else self._plain_over

    @property
    def _packets(self) -> int:
        """Chunks with output that have left."""
        return self._sent.count

    def described(self, span_start_ns: int) -> dict[str, AttributeValue]:
        """Return when its first token left, the times from it to the others, and their number.

        Args:
            span_start_ns: The monotonic start of the request's span.
        """
        first_ns = self._first_ns
        if first_ns is None:
            if self._first_body_ns is None:
                return {}
            return {semconv.STREAMED_FIRST_BODY: self._first_body_ns - span_start_ns}
        first_s = (first_ns - span_start_ns) / 1e9
        attributes: dict[str, AttributeValue] = {
            semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: first_s
        }
        packed = self._token_times(span_start_ns)
        if packed:
            attributes[semconv.TOKEN_TIMES] = packed
            self._count_into(attributes)
        return attributes

    @property
    def _first_ns(self) -> int | None:
        """Return when the first packet with output had left; None: none has."""
        return self._sent.first_ns

    def _token_times(self, span_start_ns: int) -> str:
        return self._sent.packed(span_start_ns)

    def _count_into(self, attributes: dict[str, AttributeValue]) -> None:
        """Tell what left after the first packet; of several choices, after the first of each."""
        choices = self._events.choices
        events = self._packets + self._more
        following = events - max(self._first_read, choices)
        if following <= 0:
            return
        if choices > 1:
            attributes[semconv.STREAMED_CHOICES] = choices
        if self.carried:
            # Each event carries a token at least; a model may be ahead of what leaves.
            made = self._all_carried - self._first_known
            attributes[semconv.STREAMED_TOKENS] = max(made, following)
            return
        reported = self._events.tokens
        if reported is None or reported < events:  # it does not report all of them
            attributes[semconv.STREAMED_EVENTS] = following
        else:
            attributes[semconv.STREAMED_TOKENS] = round(reported * following / events)


class KeptChunks(Protocol):
    """When chunks were handed over and had left, as the compiled core keeps it."""

    def __len__(self) -> int:
        """Return how many there are."""

    def first_ns(self) -> int | None:
        """Return when the first had left; None: there is none."""

    def drain(self, sends: list[int], times: list[int]) -> None:
        """Move the times to two lists: of sends and their ends, and of the ends alone."""


class AnswerStream(ReadAnswer):
    """The answer of one request while it is streamed.

    Speed is the point here: of a chunk that leaves, four values are held, and many are read
    together (`catch_up`; `bench_request.py`).

    Args:
        sends: Takes the starts and ends of sends that were held.
    """

    __slots__ = ("chunks", "eager", "held", "sends")

    def __init__(self, sends: list[int] | None = None) -> None:
        super().__init__()
        self.sends = [] if sends is None else sends
        # Chunks that were not read yet: when each was handed over and had left, `known` when it
        # was handed over, its bytes; one after another.
        self.held: list[Any] = []
        self.eager = True  # what leaves is to be read at once
        self.chunks: KeptChunks | None = None  # chunks that the compiled core has read

    def begun_as(self, events: AnswerEvents | None) -> None:
        """Note the form of its parts; None: it comes in one piece."""
        super().begun_as(events)
        self.eager = self._open

    def left(self) -> None:
        """Note that the caller has left: what is sent from now on does not reach it."""
        self.catch_up()
        super().left()

    def described(self, span_start_ns: int) -> dict[str, AttributeValue]:
        """Return what is known of it once all of it is read."""
        self.catch_up()
        return super().described(span_start_ns)

    @property
    def weight(self) -> int:
        """Return about how many bytes it keeps."""
        unread = len(self.held) // _VALUES + len(self.chunks or ())
        return (len(self._times) + 2 * unread) * TIME_BYTES + sum(map(len, self.held[3::_VALUES]))

    def chunks_in(self, stages: Stages) -> int:
        """Return about how many chunks have left, of which neighbours may be merged."""
        sends = len(stages.get(Stage.RESPOND, ())) // 2 + len(self.chunks or ())
        return max(self._packets, sends) + len(self.held) // _VALUES

    def catch_up(self) -> None:
        """Read the chunks that are held."""
        kept = self.chunks
        if kept is not None and (self.held or len(kept) >= _MOST_KEPT):
            self._take_over(kept)
        held = self.held[:]
        if not held:
            return
        del self.held[: len(held)]
        started, sent = held[::_VALUES], held[1::_VALUES]
        times = started * 2
        times[::2] = started
        times[1::2] = sent
        self.sends += times
        if len(self.sends) >= HELD_SENDS:
            fold(self.sends)
        self._chunks_sent(held[3::_VALUES], held[2::_VALUES], sent)

    @property
    def _packets(self) -> int:
        """Chunks with output that have left."""
        return self._sent.count + len(self.chunks or ())

    @property
    def _first_ns(self) -> int | None:
        """Return when the first packet with output had left; None: none has."""
        first_ns = self._sent.first_ns
        return self.chunks.first_ns() if first_ns is None and self.chunks else first_ns

    def _token_times(self, span_start_ns: int) -> str:
        if self.chunks:
            text = core.token_text(self._sent, span_start_ns, self.chunks)
            if text is not None:
                return cast("str", text)
            self._take_over(self.chunks)
        return super()._token_times(span_start_ns)

    def sends_described(self, stages: Stages, span_start_ns: int) -> dict[str, AttributeValue]:
        """Return intervals as the attribute of a span, with the sends of all chunks.

        Args:
            stages: Starts and ends by stage, this answer's `sends` among them or no sends at all.
            span_start_ns: The monotonic start of the span that carries them.
        """
        if self.chunks and stages:
            text = core.interval_text(stages, span_start_ns, self.sends, self.chunks)
            if text is not None:
                return {semconv.INTERVALS: text} if text else {}
            self._take_over(self.chunks)
        return attribute_of(stages, span_start_ns)

    def chunk_sent(self, body: bytes, known: int, sent_ns: int) -> None:
        """Note that a chunk has been sent, behind the chunks that the core keeps."""
        if self.chunks:
            self._take_over(self.chunks)
        super().chunk_sent(body, known, sent_ns)

    def _take_over(self, chunks: KeptChunks) -> None:
        chunks.drain(self.sends, self._times)
        if len(self.sends) >= HELD_SENDS:
            fold(self.sends)
        if len(self._times) >= HELD:
            self._sent.fold()

    def _chunks_sent(
        self, bodies: Sequence[bytes], known: Sequence[int], sent_ns: list[int]
    ) -> None:
        """Note that chunks have been sent, each as in `chunk_sent`."""
        count = len(bodies)
        read = 0 if self._events.begins else self._read_until_known(bodies, known, sent_ns)
        if read < count and self._are_alike(bodies[read:]):
            self.carried = known[-1]
            self._times += sent_ns[read:]
            if len(self._times) >= HELD:
                self._sent.fold()
            read = count
        for number in range(read, count):
            self.chunk_sent(bodies[number], known[number], sent_ns[number])
        # What models make meanwhile is noted by them until a token of theirs has left.
        self.eager = self._open and (not self.streams or (self.known > 0 and not self.carried))

    def _read_until_known(
        self, bodies: Sequence[bytes], known: Sequence[int], sent_ns: Sequence[int]
    ) -> int:
        """Read chunks until it is known where events have their output; return how many."""
        for number, chunk in enumerate(zip(bodies, known, sent_ns, strict=True)):
            if self._events.begins:
                return number
            self.chunk_sent(*chunk)
        return len(bodies)

    def _are_alike(self, bodies: Sequence[bytes]) -> bool:
        """Tell whether each is one event, with output where this stream's events have it."""
        events = self._events
        begins, lengths = events.begins, set(map(len, bodies))
        if not (min(lengths) > begins and max(lengths) < begins << 1):
            return False
        found = set(map(itemgetter(slice(events.key_at, begins + 1)), bodies))  # and one byte more
        return events.key + _QUOTE not in found and {text[:-1] for text in found} == {events.key}


if core is not None:
    # By which `asyncio` and `inspect` tell that what a function returns is to be awaited.
    _marks = {
        "_is_coroutine": getattr(asyncio.coroutines, "_is_coroutine", None),
        "_is_coroutine_marker": getattr(inspect, "_is_coroutine_mark", None),
    }
    core.bind_answers(
        AnswerStream,
        AnswerEvents,
        {name: mark for name, mark in _marks.items() if mark is not None},
        MOST_HELD,
        HELD_BYTES,
        _MOST_KEPT,
    )


class Answering:
    """A request with an answer that may be streamed; made when first asked for."""

    __slots__ = ()

    if TYPE_CHECKING:

        @property
        def answer(self) -> AnswerStream: ...


class MadeTokens:
    """The tokens of one generation, as its model makes them.

    Once one of them has left for the caller, the answer's times count, and
    nothing is noted here any more.
    """

    __slots__ = ("_answer", "_made", "_times")

    def __init__(self) -> None:
        self._answer = current_answer()
        self._made = TokenRecorder()
        self._times = self._made.times

    def add(self, at_ns: int | None = None, known: int = 1) -> None:
        """Note that tokens were made together, at a monotonic time or now.

        Args:
            at_ns: The time; None: now.
            known: How many of them may leave at once; `let_go` tells of the others.
        """
        answer = self._answer
        if answer is not None:
            answer.known += known
            if answer.carried:
                return
            answer.eager = True
        times = self._times
        times.append(monotonic_ns() if at_ns is None else at_ns)
        if len(times) >= HELD:
            self._made.fold()

    def let_go(self, tokens: int) -> None:
        """Note that tokens may leave that were held back until their word was complete."""
        if self._answer is not None:
            self._answer.known += tokens
            self._answer.eager = not self._answer.carried

    def described(self, span_start_ns: int) -> dict[str, AttributeValue]:
        """The times between them, unless the answer tells those.

        Args:
            span_start_ns: The monotonic start of the span that carries them.
        """
        if self._answer is not None and self._answer.carried:
            return {}
        packed = self._made.packed(span_start_ns)
        return {semconv.TOKEN_TIMES: packed} if packed else {}


def current_answer() -> AnswerStream | None:
    """The answer that is being streamed here; None: none is."""
    found = get_value(ANSWER)
    if isinstance(found, Answering):
        return found.answer
    return found if isinstance(found, AnswerStream) else None
