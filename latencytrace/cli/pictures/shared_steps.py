"""Steps that a request shared with others: how long they held it up, and what others cost."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from latencytrace.cli.pictures.bars import stage_style
from latencytrace.model import ShareBasis
from latencytrace.model.texts.units import count, duration
from latencytrace.service.answers.documents import (
    RequestDocument,
    RequestStepDocument,
    StepMemberDocument,
)

MOST_STEPS = 3
SHORT_ID = 12
SHARE_CELLS = 9


def shared_steps(request: RequestDocument) -> list[RenderableType]:
    """The steps that held it up longest, without those of this request alone."""
    steps = [step for step in request["shared_steps"] if step["size"] != 1]
    if not steps:
        return []
    shown = steps[:MOST_STEPS]
    left_out = len(steps) - len(shown) + request["shared_steps_left_out"]
    more = f" {count(left_out, 'more step')}: see --json." if left_out else ""
    note = f"Shares of a step are an estimate{_basis(shown)}; no ledger holds them.{more}"
    lines = [line for step in shown for line in _lines(step)]
    return ["", Text("served together with others", "bold"), *lines, Text(note, "dim")]


def _lines(step: RequestStepDocument) -> Iterator[Text]:
    """A step, then the requests that cost it most, or shared it equally."""
    size = "" if step["size"] is None else f" for {count(step['size'], 'request')}"
    alike = step["basis"] == ShareBasis.EQUAL
    if step["share_ns"] is None:
        own = ", not kept"
    elif alike:
        own = f", a part each: {duration(step['share_ns'])}"
    else:
        own = f", {duration(step['share_ns'])} of it this one's"
    yield Text.assemble(
        (step["name"], stage_style(step["stage"])),
        f" held it up {duration(step['held_up_ns'])}: it took {duration(step['wall_ns'])}",
        f"{size}{own} ",
        (step["span_id"], "dim"),
    )
    if alike:
        yield from _alike(step)
    else:
        yield from map(_other, step["largest_others"])


def _alike(step: RequestStepDocument) -> Iterator[Text]:
    """The requests of each route on a line; their sizes are unknown."""
    routes: dict[str, list[str]] = {}
    for member in step["largest_others"]:
        routes.setdefault(_who(member), []).append(member["trace_id"][:SHORT_ID])
    unnamed = (step["size"] or 0) - 1 - len(step["largest_others"])
    for at, (who, ids) in enumerate(routes.items(), start=1):
        more = f" and {unnamed} more" if unnamed > 0 and at == len(routes) else ""
        yield Text.assemble(f"{'with':>{SHARE_CELLS}}  {who} ", (", ".join(ids), "dim"), more)


def _other(member: StepMemberDocument) -> Text:
    tokens = "" if member["tokens"] is None else f" with {count(member['tokens'], 'token')}"
    return Text.assemble(
        f"{duration(member['share_ns']):>{SHARE_CELLS}}  {_who(member)}{tokens} ",
        (member["trace_id"][:SHORT_ID], "dim"),
    )


def _who(member: StepMemberDocument) -> str:
    return member["route"] or member["service"] or "a request that is not kept"


def _basis(steps: Sequence[RequestStepDocument]) -> str:
    """Say how they are attributed, where it is the same for all."""
    bases = {step["basis"] for step in steps if step["basis"]}
    if bases == {ShareBasis.TOKENS}:
        return " in proportion to tokens"
    return ", one part each" if bases == {ShareBasis.EQUAL} else ""
