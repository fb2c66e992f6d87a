"""A call that only its method names says whom it asked, and for what."""

import pytest

from latencytrace.analysis.trace.routes import call_name


@pytest.mark.parametrize(
    ("name", "attributes", "expected"),
    [
        ("POST", {"url.full": "https://api.openai.com/v1/chat/completions"},
         "POST api.openai.com/v1/chat/completions"),
        ("GET", {"server.address": "qdrant", "url.path": "/collections/docs/points/42"},
         "GET qdrant/collections/docs/points/{id}"),
        ("GET", {"http.url": "http://u:p@h:6333/a/0af7651916cd43dd8448eb211c80319c?key=1"},
         "GET h/a/{id}"),
        ("GET", {"server.address": "h", "url.template": "/users/{user}", "url.path": "/users/7"},
         "GET h/users/{user}"),
        ("HTTP POST", {"net.peer.name": "h", "http.target": "/v1/embeddings?x=2"},
         "POST h/v1/embeddings"),
        ("POST", {}, "POST"),
        ("POST", {"url.full": "http://[broken"}, "POST"),
        ("POST", {"url.full": 7}, "POST"),
        ("search", {"server.address": "h"}, "search"),
    ],
)  # fmt: skip
def test_the_name_has_the_host_and_the_template_of_the_path(
    name: str, attributes: dict[str, object], expected: str
) -> None:
    assert call_name(name, attributes) == expected
