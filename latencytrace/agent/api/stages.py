"""Stages that a program names itself, apart from the rest: a request waits for what they load."""

from latencytrace.agent.api.user_stage import UserStage
from latencytrace.agent.start import recorder
from latencytrace.model.attributes import AttributeValue

_new = object.__new__


def stage(name: str, **attributes: AttributeValue) -> UserStage:
    """Time a block, or each call of a function, as a stage of the request.

    Use it as `with latencytrace.stage("rerank"):` or `@latencytrace.stage("rerank")`;
    sync, async and generator functions alike. Without a running agent it records
    into the program's own tracer provider, if there is one.

    Args:
        name: One of latencytrace's stages (`retrieve`, `rerank`, …), or a name of your
            own, which is counted as stage `application` with that name kept.
        attributes: Scalars to keep with the span. No prompts: they are stored.
    """
    made = _new(UserStage)
    UserStage.__init__(made, recorder, name, attributes)  # half of what the call of a class costs
    return made
