"""`latencytrace objectives`: the objectives, how each stands, and when each pages."""

from collections.abc import Iterator
from dataclasses import astuple
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import RenderableType
from rich.text import Text

from latencytrace.analysis.slo.burn_rate import burn_rules, detection_ns
from latencytrace.cli.doctor_checks import no_request
from latencytrace.cli.pictures import standings
from latencytrace.cli.pictures.fitted_table import FittedTable
from latencytrace.cli.pictures.terminal import say_document, screen, write_out
from latencytrace.cli.processes import options
from latencytrace.cli.processes.local_service import EXTRA_HINT, service_is_installed
from latencytrace.cli.processes.pager import page
from latencytrace.cli.source import reading
from latencytrace.errors import LatencytraceError, ObjectivesError, ServiceUnreachableError
from latencytrace.model import Objective
from latencytrace.model.objective import EACH_ROUTE, length_text
from latencytrace.model.texts.units import UNKNOWN, count, objective_text, share, times
from latencytrace.service.answers.documents import ObjectiveDocument
from latencytrace.service.objectives.report import ObjectiveReportDocument, ReportDocument
from latencytrace.settings import objectives_file

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


if TYPE_CHECKING:  # its parts are an extra
    from latencytrace.service.objectives.file import ObjectivesFile

File = Annotated[
    Path | None,
    typer.Argument(
        metavar="FILE",
        help="Default: LATENCYTRACE_OBJECTIVES, else objectives.yaml.",
        show_default=False,
    ),
]


def objectives(
    file: File = None,
    *,
    report: Annotated[
        bool, typer.Option("--report", help="Write a month's report, as Markdown or JSON.")
    ] = False,
    month: Annotated[
        str | None, typer.Option(metavar="YYYY-MM", help="Of the report. Default: this one.")
    ] = None,
    as_json: options.AsJson = False,
    url: options.Url = None,
) -> None:
    """Show how objectives stand and what fires; or check a file of them.

    Without FILE the service is asked. Where none runs, or it has no objectives, the
    usual file is checked: what each objective demands, and when it alerts.

    Example: latencytrace objectives objectives.yaml
    """
    if file is not None and (as_json or report or url is not None):
        raise typer.BadParameter(
            "a file is checked without a service: leave out --json, --report and --url",
            param_hint="FILE",
        )
    if report:
        _report(url, month, as_json=as_json)
        return
    asked = None if file is not None else _asked(url, is_needed=as_json or url is not None)
    if asked is not None:
        found, firing = reading.objectives(asked), reading.alerts(asked)
        standing = found["objectives"]
        if as_json:
            say_document({**found, "alerts": firing})
            return
        if standing or url is not None or objectives_file() is None:
            silent = [_without_data(asked, objective) for objective in standing]
            page(
                screen(),
                *standings.picture(standing, firing, found["maintenance"]),
                *filter(None, silent),
            )
            return
    checked = read(file)
    page(screen(), *picture(checked.objectives, checked.notes))


def _report(url: str | None, month: str | None, *, as_json: bool) -> None:
    document = reading.objectives_report(reading.service(url), month)
    if as_json:
        say_document(document)
    else:
        write_out(markdown(document).encode())


def _asked(url: str | None, *, is_needed: bool) -> reading.Source | None:
    """The service, if one runs.

    Raises:
        ServiceUnreachableError: None does, and one is needed.
    """
    try:
        return reading.service(url)
    except ServiceUnreachableError:
        if is_needed:
            raise
        return None


def _without_data(source: reading.Source, objective: ObjectiveDocument) -> str | None:
    """Say why no request of an objective has come, if its names are unknown."""
    if objective["requests"]:
        return None
    route, named = objective["route"], {"service": objective["service"]}
    if route not in {None, EACH_ROUTE}:
        named["route"] = route
    unknown = no_request.unknown(source, named)
    return None if unknown is None else f"{objective['name']} has no request. {unknown}"


def read(file: Path | None) -> "ObjectivesFile":
    """The objectives of the file named, else of the usual one.

    Raises:
        ObjectivesError: There is none, or something in it is wrong.
    """
    path = file or objectives_file()
    if path is None:
        raise ObjectivesError(
            "there is no objectives.yaml here: name a file, or set LATENCYTRACE_OBJECTIVES"
        )
    if not service_is_installed():
        raise LatencytraceError(f"objectives need the service's parts: {EXTRA_HINT}")
    from latencytrace.service.objectives.file import (
        read_objectives,
    )

    return read_objectives(path)


def picture(objectives: tuple[Objective, ...], notes: tuple[str, ...]) -> list[RenderableType]:
    """Each objective with its tiers."""
    parts: list[RenderableType] = []
    for objective in objectives:
        parts += [*heading(objective), _tiers(objective), ""]
    parts += [Text(note, "dim") for note in notes]
    return [*parts, f"{count(len(objectives), 'objective')}, nothing wrong."]


def heading(objective: Objective) -> list[RenderableType]:
    """An objective in words."""
    of = [objective.service, objective.route, objective.model, objective.version]
    slices = astuple(objective.slices) if objective.slices else ()
    target = (
        f"{100 * objective.target_ratio:.6g} % of {' · '.join(filter(None, of))}: "
        f"{objective_text(objective.measured, objective.limit_ns, *slices)}, "
        f"over {objective.period_text}"
    )
    return [Text(f"{objective.name}  {objective.display_name}", "bold"), target]


def _tiers(objective: Objective) -> RenderableType:
    after = "after a full outage"
    drawn = FittedTable(
        *("alert", "burns", "over", "and over", "at least bad", after),
        left=("alert",),
        name="alert",
        leave_out=(after, "at least bad"),
    )
    for rule in burn_rules(objective):
        drawn.add_row(
            str(rule.severity),
            times(rule.factor),
            length_text(rule.long_ns),
            length_text(rule.short_ns),
            share(rule.factor * objective.budget_ratio),
            length_text(detection_ns(objective, rule, 1.0) or 0),
        )
    return drawn
