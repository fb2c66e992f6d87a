"""`latencytrace autoscaling`: scale a deployment by what its requests wait for."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from latencytrace.cli.commands.objectives import File, read
from latencytrace.cli.commands.rules import yaml_text
from latencytrace.cli.pictures.terminal import write_out
from latencytrace.cli.rule_files.autoscaling import (
    Autoscaler,
    ScaleBy,
    Scaling,
    autoscaling_documents,
)
from latencytrace.model import Objective
from latencytrace.settings import objectives_file

_NAME: Final = re.compile(r"[a-z0-9](?:[-a-z0-9.]{0,251}[a-z0-9])?")  # of an object of Kubernetes
_REPLICAS: Final = re.compile(r"(\d+):(\d+)")


def autoscaling(
    file: File = None,
    *,
    deployment: Annotated[str, typer.Option(help="What is scaled.", metavar="NAME")],
    service: Annotated[
        str | None,
        typer.Option(help="Its service in traces; the deployment's name.", show_default=False),
    ] = None,
    autoscaler: Annotated[
        Autoscaler, typer.Option("--for", help="KEDA, or Kubernetes's own autoscaler.")
    ] = Autoscaler.KEDA,
    by: Annotated[
        list[str] | None,
        typer.Option(
            "--by",
            metavar="MEASURE=TARGET",
            help="waiting=1 (default), batch=8, queue-time=0.2 (seconds), burn-rate=1.",
            show_default=False,
        ),
    ] = None,
    replicas: Annotated[str, typer.Option(metavar="MIN:MAX", help="How many.")] = "1:10",
    prometheus: Annotated[
        str, typer.Option(metavar="URL", help="Where KEDA asks.")
    ] = "http://prometheus:9090",
) -> None:
    """Write what scales a deployment by its queue, its batches or its objectives.

    FILE has the objectives: their burn rates count. Several measures: the largest number of
    replicas that one of them asks for.

    Example: latencytrace autoscaling --deployment chat --by waiting=2 > chat-autoscaling.yaml
    """
    if not _NAME.fullmatch(deployment):
        raise typer.BadParameter("no name of a deployment", param_hint="--deployment")
    targets = dict(_target(one) for one in by or ["waiting=1"])
    least, most = _bounds(replicas)
    service = service or deployment
    scaling = Scaling(
        deployment=deployment,
        service=service,
        targets=targets,
        objectives=_objectives(file, service) if ScaleBy.BURN_RATE in targets else (),
        least=least,
        most=most,
        prometheus=prometheus,
    )
    documents = autoscaling_documents(scaling, autoscaler)
    write_out("---\n".join(yaml_text(one, "autoscaling") for one in documents).encode())


def _target(text: str) -> tuple[ScaleBy, float]:
    name, _, wanted = text.partition("=")
    try:
        by, target = ScaleBy(name), float(wanted)
    except ValueError:
        known = ", ".join(ScaleBy)
        raise typer.BadParameter(
            f"{text!r} is not MEASURE=TARGET; measures: {known}", param_hint="--by"
        ) from None
    if not 0.001 <= target <= 1e6:  # noqa: PLR2004 - Kubernetes counts in thousandths
        raise typer.BadParameter("a target lies between 0.001 and 1000000", param_hint="--by")
    return by, target


def _bounds(text: str) -> tuple[int, int]:
    found = _REPLICAS.fullmatch(text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise typer.BadParameter("say MIN:MAX, as 1:10", param_hint="--replicas")
    return int(found[1]), int(found[2])


def _objectives(file: Path | None, service: str) -> Sequence[Objective]:
    objectives = [one for one in read(file).objectives if one.service == service]
    if not objectives:
        raise typer.BadParameter(
            f"no objective in {file or objectives_file()} is of {service}", param_hint="--by"
        )
    return objectives
