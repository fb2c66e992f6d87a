"""When the first token of an answer was known, and when it left for the caller."""

from opentelemetry.context import Context, create_key, get_value, set_value

from latencytrace.agent.clock import monotonic_ns

_ANSWER = create_key("latencytrace.answer")


class AnswerStream:
    """The answer of one request while it is streamed.

    A server's first chunk need not hold a token: it may be a role, or a comment that keeps
    the connection open. So the model says when it has made one, and the chunk that is
    sent next is the first to carry it.
    """

    __slots__ = ("_first_known_ns", "first_sent_ns")

    def __init__(self) -> None:
        self._first_known_ns: int | None = None
        self.first_sent_ns: int | None = None  # monotonic; None: no token was sent yet

    def token_known(self) -> None:
        """Note that the model has made a token; only the first one counts."""
        if self._first_known_ns is None:
            self._first_known_ns = monotonic_ns()

    def chunk_sent(self, handed_ns: int) -> None:
        """Note that a chunk, handed to the server at a monotonic time, has been sent."""
        known_ns = self._first_known_ns
        if self.first_sent_ns is None and known_ns is not None and handed_ns >= known_ns:
            self.first_sent_ns = monotonic_ns()


def with_answer(answer: AnswerStream, context: Context) -> Context:
    """A context in which models find the answer that they make."""
    return set_value(_ANSWER, answer, context)


def current_answer() -> AnswerStream | None:
    """The answer that is being made here; None: nobody streams one."""
    answer = get_value(_ANSWER)
    return answer if isinstance(answer, AnswerStream) else None
