"""`latencytrace.request`: a unit of work without a server, which is a request of its own."""

from typing import cast

from latencytrace.agent.api.user_stage import UserStage
from latencytrace.agent.timing.wrapping import Call
from latencytrace.agent.toolkit.own_request import OwnRequest


class UserRequest(UserStage):
    """Times a block or a function as a request; made by `latencytrace.request(name)`."""

    __slots__ = ()

    def _begun(self) -> OwnRequest:
        return OwnRequest(self._recorder(), self._name, self._attributes)

    def _begun_call(self) -> Call:
        return cast("Call", self._begun())  # it does all that is asked of one
