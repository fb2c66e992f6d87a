"""Rows below a breakdown or a trace: what held its stages up on GPUs."""

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.text import Text

from latencytrace.cli.pictures.fitted_table import FittedTable, stage_style
from latencytrace.model import ShareBasis
from latencytrace.model.texts.units import UNKNOWN, count, duration, share
from latencytrace.service.answers.documents import (
    RequestDocument,
    RequestStepDocument,
    StepMemberDocument,
)
from latencytrace.service.answers.gpu_documents import BOUND_BY, NOTES, GpuStageDocument


def stages_table(stages: Sequence[GpuStageDocument]) -> list[RenderableType]:
    """A table of what each kind of work used on the device, and what bound it."""
    if not stages:
        return []
    drawn = FittedTable(
        "on the GPU", "model", "of", "device time", "of its time", "bandwidth", "tensor",
        "bound by", "sure", "and", left=("on the GPU", "model", "of", "bound by", "sure", "and"),
        name="bound by", leave_out=("and", "sure", "of", "model", "of its time", "tensor"),
    )  # fmt: skip
    for row in stages:
        drawn.add_row(
            Text(row["stage"], stage_style(row["stage"])),
            row["model"] or UNKNOWN,
            row["service"],
            duration(row["device_ns"] / row["spans"]) if row["spans"] else UNKNOWN,
            share(row["device_ns"] / row["wall_ns"]) if row["wall_ns"] else UNKNOWN,
            _used(row, "bandwidth_ratio"),
            _used(row, "tensor_ratio"),
            BOUND_BY.get(row["bound"], row["bound"]),
            row["confidence"] if row["bound"] != "unknown" else "",
            ", ".join(NOTES.get(note, note) for note in row["notes"]),
        )
    return [drawn]


def of_cohort(
    stages: Sequence[GpuStageDocument], service: str | None, model: str | None
) -> list[GpuStageDocument]:
    """The rows of a service and a model, as far as they are named."""
    return [
        row
        for row in stages
        if service in {None, row["service"]} and model in {None, row["model"]}
    ]


def devices_table(
    request: RequestDocument, stages: Sequence[GpuStageDocument]
) -> list[RenderableType]:
    """Lines on what a request's spans had a GPU do, and what held such work up lately."""
    spans = [span for span in request["spans"] if span["device"] is not None]
    if not spans:
        return []
    drawn = FittedTable(
        "on the GPU", "span", "device time", "of its time", "launching", "waiting", "begins",
        "bound by, lately", left=("on the GPU", "span", "bound by, lately"),
        name="span", leave_out=("begins", "bound by, lately", "waiting", "launching"),
    )  # fmt: skip
    for span in spans:
        device = span["device"]
        if device is None:
            continue
        wall_ns = max(span["end_ns"] - span["start_ns"], device["end_ns"] - device["start_ns"])
        error = "" if device["error_ns"] is None else f" ± {duration(device['error_ns'])}"
        bounds = {
            BOUND_BY.get(row["bound"], row["bound"])
            for row in stages
            if (row["uuid"], row["stage"], row["service"])
            == (device["gpu"], span["stage"], span["service"])
            and row["model"] in {span["attributes"].get("gen_ai.request.model"), ""}
        }
        drawn.add_row(
            Text(span["stage"], stage_style(span["stage"])),
            span["name"],
            duration(device["device_ns"]),
            share(device["device_ns"] / wall_ns) if wall_ns else UNKNOWN,
            duration(device["launch_ns"]),
            duration(device["queue_ns"]),
            duration(max(0, device["start_ns"])) + error,
            ", ".join(sorted(bounds)) or "unknown",
        )
    return ["", drawn]


def _used(row: GpuStageDocument, counter: str) -> str:
    used = row["used"].get(counter)
    modelled = {
        "bandwidth_ratio": row["modelled_bandwidth_ratio"],
        "tensor_ratio": row.get("modelled_tensor_ratio"),  # an older service tells none
    }[counter]
    if used is None and modelled is not None:
        return f"at least {share(modelled)}, modelled"
    if used is None:
        return UNKNOWN
    return f"{share(used['ratio'])} ± {100 * used['error_ratio']:.1f}"


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
