"""The filters that reading commands share: flags of each, query parameters of the API."""

import inspect
from collections.abc import Callable, Mapping
from functools import wraps
from typing import Annotated, Any

import typer

Filters = Mapping[str, str]  # as the API's query parameters spell them

_FILTERS = "wanted"  # the parameter of a command in whose place the flags stand


def filters(  # noqa: PLR0913 - one argument a flag
    *,
    service: Annotated[str | None, typer.Option(help="Only this service's requests.")] = None,
    route: Annotated[str | None, typer.Option(help='Only this route, as "POST /chat".')] = None,
    model: Annotated[str | None, typer.Option(help="Only requests to this model.")] = None,
    version: Annotated[str | None, typer.Option(help="Only this version of the service.")] = None,
    instance: Annotated[
        str | None, typer.Option(help="Only this instance of the service.")
    ] = None,
    status: Annotated[
        str | None, typer.Option(help="Only ok, error, timeout, cancelled or rejected ones.")
    ] = None,
    input_tokens: Annotated[
        str | None, typer.Option(help="Only with so many: 1000..4000, 1000.., ..4000 or 512.")
    ] = None,
    output_tokens: Annotated[str | None, typer.Option(help="Likewise.")] = None,
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Only with this attribute on a span. May be repeated."
        ),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="From when: 15m, 2h, or RFC 3339. Default: the last hour.")
    ] = None,
    until: Annotated[str | None, typer.Option(help="Until when, likewise. Default: now.")] = None,
) -> Filters:
    """The query parameters of what was asked for.

    Raises:
        typer.BadParameter: A value is empty, as of a shell's variable that is not set.
    """
    values = {
        "service": service,
        "route": route,
        "model": model,
        "version": version,
        "instance": instance,
        "status": status,
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "since": since,
        "until": until,
    }
    wanted = {name: value for name, value in values.items() if value is not None}
    for name, value in (*wanted.items(), *(("where", condition) for condition in where or ())):
        if not value.strip():
            raise typer.BadParameter("it is empty", param_hint=f"--{name.replace('_', '-')}")
    if where:
        conditions = (condition.replace("%", "%25").replace("&", "%26") for condition in where)
        wanted["where"] = "&".join(conditions)
    return wanted


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """A command with the flags of `filters` in the place of its parameter `wanted`."""
    flags = inspect.signature(filters).parameters
    signature = inspect.signature(command)

    @wraps(command)
    def taking_flags(*args: object, **given: object) -> None:
        asked: dict[str, Any] = {name: given.pop(name) for name in flags.keys() & given.keys()}
        command(*args, **given, **{_FILTERS: filters(**asked)})

    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += flags.values() if name == _FILTERS else [parameter]
    shown = signature.replace(parameters=parameters)
    taking_flags.__signature__ = shown  # type: ignore[attr-defined] # what inspect, and so typer, reads
    return taking_flags
