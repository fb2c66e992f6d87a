"""A step that serves many requests at once, and each member's part in it."""

from dataclasses import dataclass
from enum import StrEnum

from latencytrace.model.span import Span
from latencytrace.model.stage import Stage


class ShareBasis(StrEnum):
    """The basis on which the shares of a step's members are estimated."""

    TOKENS = "tokens"  # in proportion to the tokens that each brought
    EQUAL = "equal"  # one part each


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMember:
    """A request's part in a step."""

    trace_id: str
    span_id: str  # what the step was to it, in its own trace
    span: Span | None  # that span; None: it is not there, only the step's link to it
    tokens: int | None  # that it brought; None: not reported
    share_ns: int  # the estimate of what it cost


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedStep:
    """A batch or a decode step; the shares add up to `wall_ns` exactly."""

    span: Span
    stage: Stage
    size: int  # members, those unknown included
    tokens: int | None  # of all of them
    wall_ns: int
    basis: ShareBasis
    members: tuple[StepMember, ...]  # the largest share first
    unknown_members: int  # that the step counted, and no link leads to
    unknown_share_ns: int  # theirs together; of a step without members all of it
