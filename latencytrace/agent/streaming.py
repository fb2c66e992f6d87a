"""When the tokens of an answer were known, and when they left for the caller."""

from opentelemetry.context import Context, create_key, get_value, set_value

from latencytrace.agent.clock import monotonic_ns
from latencytrace.agent.token_recorder import HELD, TokenRecorder
from latencytrace.model import semconv
from latencytrace.model.span import AttributeValue

_ANSWER = create_key("latencytrace.answer")


class AnswerStream:
    """The answer of one request while it is streamed.

    A server's chunk need not hold a token: it may be a role, or a comment that keeps the
    connection open. So the model says when it has made one, and the chunk that is handed to
    the server next is the one that carries it. What a model makes while a chunk is on its way
    goes with the next.
    """

    __slots__ = ("_fold_at", "_note", "_sent", "carried", "known")

    def __init__(self) -> None:
        self.known = 0  # how often the model has made tokens: who sees one made adds one
        self.carried = 0  # how many of those have left
        self._sent = TokenRecorder()
        self._note = self._sent.times.append
        self._fold_at = HELD

    def chunk_sent(self, known: int, sent_ns: int) -> None:
        """Note that a chunk has been sent.

        Args:
            known: What `known` was when it was handed to the server.
            sent_ns: When it had left, monotonic.
        """
        if known > self.carried:
            self.carried = known
            self._note(sent_ns)
            if known >= self._fold_at:  # so that no more than so many chunks came since
                self._sent.fold()
                self._fold_at = known + HELD

    def described(self, span_start_ns: int) -> dict[str, AttributeValue]:
        """When its first token left, and the times between it and the others.

        Args:
            span_start_ns: The monotonic start of the request's span.
        """
        first_ns = self._sent.first_ns
        if first_ns is None:
            return {}
        first_s = (first_ns - span_start_ns) / 1e9
        attributes: dict[str, AttributeValue] = {
            semconv.GEN_AI_RESPONSE_TIME_TO_FIRST_CHUNK: first_s
        }
        packed = self._sent.packed(span_start_ns)
        if packed:
            attributes[semconv.TOKEN_TIMES] = packed
        return attributes


class MadeTokens:
    """The tokens of one generation, as its model makes them.

    Once one of them has left for the caller, the answer's times are those that count, and
    nothing is noted here any more.
    """

    __slots__ = ("_answer", "_made", "_times")

    def __init__(self) -> None:
        self._answer = current_answer()
        self._made = TokenRecorder()
        self._times = self._made.times

    def add(self, at_ns: int | None = None) -> None:
        """Note that a token was made, at a monotonic time or now."""
        answer = self._answer
        if answer is not None:
            answer.known += 1
            if answer.carried:
                return
        times = self._times
        times.append(monotonic_ns() if at_ns is None else at_ns)
        if len(times) >= HELD:
            self._made.fold()

    def described(self, span_start_ns: int) -> dict[str, AttributeValue]:
        """The times between them, unless the answer tells those.

        Args:
            span_start_ns: The monotonic start of the span that carries them.
        """
        if self._answer is not None and self._answer.carried:
            return {}
        packed = self._made.packed(span_start_ns)
        return {semconv.TOKEN_TIMES: packed} if packed else {}


def with_answer(answer: AnswerStream, context: Context) -> Context:
    """A context in which models find the answer that they make."""
    return set_value(_ANSWER, answer, context)


def current_answer() -> AnswerStream | None:
    """The answer that is being made here; None: nobody streams one."""
    answer = get_value(_ANSWER)
    return answer if isinstance(answer, AnswerStream) else None
