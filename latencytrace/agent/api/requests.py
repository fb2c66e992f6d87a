"""Requests that a program names itself."""

import latencytrace.agent.api.stages  # noqa: F401 - the first request would wait for it
from latencytrace.agent.api.user_request import UserRequest
from latencytrace.agent.start import recorder
from latencytrace.model.attributes import AttributeValue


def request(name: str, **attributes: AttributeValue) -> UserRequest:
    """Time a unit of work that no server takes, as a request in a trace of its own.

    Use it as `with latencytrace.request("nightly"):` or `@latencytrace.request("nightly")`;
    sync, async and generator functions alike. Inside of another request it is none of its parts.

    Args:
        name: What breakdowns call its route; of low cardinality.
        attributes: Scalars to keep with the span. No prompts: they are stored.
    """
    return UserRequest(recorder, name, attributes)
