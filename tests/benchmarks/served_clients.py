"""Clients of an application, with their own clocks; they know nothing of who traces it.

    python served_clients.py ADDRESS CLIENTS REQUESTS METHOD PATH BODY [TOKEN]

Each client keeps its connection, and sends its next request once it has its answer. Prints when
the first byte of the body and the last one came, in ns since the request was sent, and the
status: a line a request. The method QUEUE posts, and follows the event that is begun with that to
its end, as clients of Gradio do.
"""

import http.client
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from time import monotonic_ns
from urllib.parse import urlsplit

PATIENCE_S = 120


def ask(
    connection: http.client.HTTPConnection, method: str, path: str, body: str, *token: str
) -> dict[str, int]:
    """Send one request, and take the times of its answer."""
    headers = {"Content-Type": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token[0]}"
    sent_ns = monotonic_ns()
    connection.request("POST" if method == "QUEUE" else method, path, body, headers)
    answer = connection.getresponse()
    if method == "QUEUE":
        connection.request("GET", f"{path}/{json.load(answer)['event_id']}")
        answer = connection.getresponse()
    answer.read(1)
    first_ns = monotonic_ns() - sent_ns
    answer.read()
    return {"first_ns": first_ns, "ended_ns": monotonic_ns() - sent_ns, "status": answer.status}


def main(address: str, clients: str, count: str, *asked: str) -> None:
    """Print what all of them saw."""
    where, each = str(urlsplit(address).netloc), int(count) // int(clients)

    def client(_: int) -> list[dict[str, int]]:
        connection = http.client.HTTPConnection(where, timeout=PATIENCE_S)
        seen = [ask(connection, *asked) for _ in range(each)]
        connection.close()
        return seen

    with ThreadPoolExecutor(int(clients)) as together:
        for seen in together.map(client, range(int(clients))):
            for one in seen:
                print(json.dumps(one))


if __name__ == "__main__":
    main(*sys.argv[1:])
