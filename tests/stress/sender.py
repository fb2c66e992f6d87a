"""A sender of posts that behaves as the stock exporters do, and remembers what was answered."""

import http.client
import select
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from tests.stress.workload import Post, Workload
from tests.support.servers.running_service import PROTOBUF

CONNECTIONS: Final = 4
ANSWER_WITHIN_S: Final = 10.0  # the exporters' default; then the same spans are sent again
BACK_OFF_S: Final = 0.5
PATIENCE_S: Final = 180.0  # after which a post is given up, and may or may not be there
AGAIN: Final = frozenset({429, 502, 503, 504})

Address = tuple[str, int]


@dataclass(slots=True)
class Record:
    """What a sender was told."""

    acknowledged: set[int] = field(default_factory=set)  # numbers of posts
    answers: Counter[int] = field(default_factory=Counter)  # by HTTP status
    unanswered: int = 0  # attempts: refused connections, torn ones, no answer in time
    unanswered_spans: int = 0  # in these; the receiver may have them all the same
    rejected_spans: int = 0  # by partial success
    given_up: set[int] = field(default_factory=set)  # numbers of posts
    answered_s: list[float] = field(default_factory=list)  # how long each acknowledgement took

    def slowest_s(self, quantile: float = 0.99) -> float:
        """A quantile of the time to an acknowledgement."""
        ordered = sorted(self.answered_s)
        return ordered[min(int(len(ordered) * quantile), len(ordered) - 1)] if ordered else 0.0


class Sender:
    """Sends each post of a workload when it is due, over several connections.

    It asks the service nothing. A post without an answer, or answered with 429, 502, 503 or
    504, is sent again with the same spans; any other refusal is final.

    Args:
        workload: What to send.
        address: Tells where the receiver is, at each attempt.
    """

    def __init__(self, workload: Workload, address: Callable[[], Address]) -> None:
        self.record = Record()
        self._address = address
        self._posts = iter(workload.posts)
        self._changed = threading.Condition()
        self._began_s = 0.0
        self._threads = [
            threading.Thread(target=self._run, name=f"sender-{number}", daemon=True)
            for number in range(CONNECTIONS)
        ]

    def start(self) -> None:
        """Begin to send."""
        self._began_s = time.monotonic()
        for thread in self._threads:
            thread.start()

    def wait(self) -> Record:
        """Wait until every post was acknowledged, refused or given up."""
        for thread in self._threads:
            thread.join()
        return self.record

    @property
    def is_sending(self) -> bool:
        """Whether posts are left."""
        return any(thread.is_alive() for thread in self._threads)

    def wait_for(self, reached: Callable[[Record], bool]) -> bool:
        """Wait until the record has come so far, or all is sent.

        Returns:
            Whether it has come so far.
        """
        with self._changed:
            while not reached(self.record) and self.is_sending:
                self._changed.wait(0.2)
            return reached(self.record)

    def _run(self) -> None:
        connection = self._connected()
        while (post := self._next()) is not None:
            time.sleep(max(self._began_s + post.due_s - time.monotonic(), 0.0))
            deadline_s = time.monotonic() + PATIENCE_S
            while True:
                if _is_closed(connection):
                    connection.close()
                    connection = self._connected()
                status = self._attempt(connection, post)
                if status is not None and status not in AGAIN:
                    break
                if status is None:
                    connection.close()
                    connection = self._connected()
                if time.monotonic() > deadline_s:
                    with self._changed:
                        self.record.given_up.add(post.number)
                    break
                time.sleep(BACK_OFF_S)
        connection.close()

    def _connected(self) -> http.client.HTTPConnection:
        """A connection that is opened by its first post."""
        return http.client.HTTPConnection(*self._address(), timeout=ANSWER_WITHIN_S)

    def _next(self) -> Post | None:
        with self._changed:
            return next(self._posts, None)

    def _attempt(self, connection: http.client.HTTPConnection, post: Post) -> int | None:
        """Send a post once; the status of the answer, or None where there was none."""
        began_s = time.monotonic()
        try:
            connection.request("POST", "/v1/traces", post.body, PROTOBUF)
            answer = connection.getresponse()
            status, body = answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            status, body = None, b""
        with self._changed:
            record = self.record
            if status is None:
                record.unanswered += 1
                record.unanswered_spans += post.span_count
            else:
                record.answers[status] += 1
            if status == http.client.OK:
                told = ExportTraceServiceResponse.FromString(body)
                record.rejected_spans += told.partial_success.rejected_spans
                record.acknowledged.add(post.number)
                record.answered_s.append(time.monotonic() - began_s)
            self._changed.notify_all()
        return status


def _is_closed(connection: http.client.HTTPConnection) -> bool:
    """Whether the receiver has closed a connection that was idle: it would take no post."""
    if connection.sock is None:
        return False
    poll = select.poll()  # `select` takes no file beyond the thousandth
    poll.register(connection.sock, select.POLLIN)
    return bool(poll.poll(0))
