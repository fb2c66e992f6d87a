"""The report of a month, as Markdown."""

from collections.abc import Iterator

from latencytrace.model.texts.units import UNKNOWN, objective_text, share
from latencytrace.service.objectives.report import ObjectiveReportDocument, ReportDocument

_MET = {True: "yes", False: "**no**", None: UNKNOWN}


def markdown(document: ReportDocument) -> str:
    """Return a table of all objectives, and a table of the days of each."""
    lines = [
        f"# Objectives in {document['month']}",
        "",
        "| objective | of | target | requests | bad | good | met | budget spent |",
        "| --- | --- | ---: | ---: | ---: | ---: | --- | ---: |",
        *map(_row, document["objectives"]),
        "",
        "Budget spent: by the requests that came, as if all of the time were like them.",
    ]
    for objective in document["objectives"]:
        if objective["days"]:
            lines += _days(objective)
    return "\n".join([*lines, ""])


def _row(objective: ObjectiveReportDocument) -> str:
    good = objective["good_ratio"]
    cells = (
        _cell(objective["name"]),
        _cell(" · ".join(filter(None, (objective["service"], objective["route"])))),
        f"{100 * objective['target_ratio']:.6g} %",
        f"{objective['requests']:,}",
        f"{objective['bad_requests']:,}",
        UNKNOWN if good is None else f"{100 * good:.6g} %",
        _MET[objective["is_met"]],
        share(objective["budget_spent_ratio"]),
    )
    return f"| {' | '.join(cells)} |"


def _days(objective: ObjectiveReportDocument) -> Iterator[str]:
    slices = objective["time_slice_ns"], objective["time_slice_target_ratio"]
    wanted = objective_text(objective["measure"], objective["threshold_ns"], *slices)
    of = _cell(objective["route"] or objective["service"])
    yield ""
    yield f"## {_cell(objective['name'])}: {of}, {wanted}"
    yield ""
    yield "| day (UTC) | requests | bad | budget of the day spent |"
    yield "| --- | ---: | ---: | ---: |"
    for day in objective["days"]:
        spent = share(day["budget_spent_ratio"])
        yield f"| {day['day']} | {day['requests']:,} | {day['bad_requests']:,} | {spent} |"


def _cell(text: str) -> str:
    """A text that ends no cell and begins no line."""
    return " ".join(text.replace("|", "\\|").split())
