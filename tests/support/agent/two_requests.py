"""Two requests to a server that answers one at a time, and what was spent on each."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from tests.support.agent.receiving import ReceivedSpan
from tests.support.servers.traced_server import TracedServer

Body = Mapping[str, object]


def ask_while_another_is_answered(
    server: TracedServer, route: str, *, streamed: Body, whole: Body, sign: str
) -> None:
    """Ask for a whole answer once a streamed one has begun, and take both to their ends.

    Args:
        server: It runs.
        route: Of both requests.
        streamed: The first request.
        whole: The second.
        sign: What a line of the stream holds if it brings a token.
    """
    with server.client.stream("POST", route, json=streamed) as answer:
        lines = answer.iter_lines()
        next(line for line in lines if sign in line)
        with ThreadPoolExecutor(1) as client:
            other = client.submit(_ask, server, route, whole)
            for _ in lines:
                pass
            other.result()


def stages(spans: list[ReceivedSpan]) -> set[str]:
    """The stages of spans and of the work interleaved with them."""
    of_spans = {span.stage for span in spans if span.stage}
    return of_spans | {interval.stage.value for span in spans for interval in span.intervals}


def _ask(server: TracedServer, route: str, body: Body) -> None:
    answer = server.client.post(route, json=body)
    assert answer.status_code == 200, answer.text
