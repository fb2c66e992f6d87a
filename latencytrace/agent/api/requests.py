"""Requests that a program names itself."""

from typing import cast

import latencytrace.agent.api.stages  # noqa: F401 - the first request would wait for it
from latencytrace.agent.api.user_stage import UserStage
from latencytrace.agent.start import recorder
from latencytrace.agent.timing.wrapping import Call
from latencytrace.agent.toolkit.own_request import OwnRequest
from latencytrace.model.attributes import AttributeValue


class UserRequest(UserStage):
    """Times a block or a function as a request; made by `latencytrace.request(name)`."""

    __slots__ = ()

    def _begun(self) -> OwnRequest:
        return OwnRequest(self._recorder(), self._name, self._attributes)

    def _begun_call(self) -> Call:
        return cast("Call", self._begun())  # it does all that is asked of one


def request(name: str, **attributes: AttributeValue) -> UserRequest:
    """Time a unit of work that no server takes, as a request in a trace of its own.

    Use it as `with latencytrace.request("nightly"):` or `@latencytrace.request("nightly")`;
    sync, async and generator functions alike. Inside of another request it is none of its parts.

    Args:
        name: What breakdowns call its route; of low cardinality.
        attributes: Scalars to keep with the span. No prompts: they are stored.
    """
    return UserRequest(recorder, name, attributes)
