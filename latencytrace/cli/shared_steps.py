"""What a request shared with others: the steps that held it up, and who cost how much."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from latencytrace.cli.documents import RequestDocument, SharedStepDocument, StepMemberDocument
from latencytrace.cli.pictures import stage_style
from latencytrace.cli.units import count, duration

MOST_STEPS = 3
SHORT_ID = 12
SHARE_CELLS = 9


def shared_steps(request: RequestDocument) -> list[RenderableType]:
    """The steps that held it up longest; nothing without any."""
    steps = request.get("shared_steps", [])
    if not steps:
        return []
    shown = steps[:MOST_STEPS]
    left_out = len(steps) - len(shown) + request.get("shared_steps_left_out", 0)
    more = f" {count(left_out, 'more step')}: see --json." if left_out else ""
    note = f"Shares of a step are an estimate{_basis(shown)}; no ledger holds them.{more}"
    lines = [line for step in shown for line in _lines(step)]
    return ["", Text("served together with others", "bold"), *lines, Text(note, "dim")]


def _lines(step: SharedStepDocument) -> Iterator[Text]:
    """A step, then who cost it most."""
    size = "" if step["size"] is None else f" for {count(step['size'], 'request')}"
    kept = step["share_ns"] is not None
    own = f", {duration(step['share_ns'] or 0)} of it this one's" if kept else ", not kept"
    yield Text.assemble(
        (step["name"], stage_style(step["stage"])),
        f" held it up {duration(step['held_up_ns'])}: it took {duration(step['wall_ns'])}",
        f"{size}{own} ",
        (step["span_id"], "dim"),
    )
    for member in step["largest_others"]:
        yield _other(member)


def _other(member: StepMemberDocument) -> Text:
    tokens = "" if member["tokens"] is None else f" with {count(member['tokens'], 'token')}"
    who = member["route"] or member["service"] or "a request that is not kept"
    return Text.assemble(
        f"{duration(member['share_ns']):>{SHARE_CELLS}}  {who}{tokens} ",
        (member["trace_id"][:SHORT_ID], "dim"),
    )


def _basis(steps: Sequence[SharedStepDocument]) -> str:
    """How they are divided, where it is the same for all."""
    bases = {step["basis"] for step in steps if step["basis"]}
    if bases == {"tokens"}:
        return " in proportion to tokens"
    return ", one part each" if bases == {"equal"} else ""
