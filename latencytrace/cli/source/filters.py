"""The filters that reading commands share: flags of each, query parameters of the API."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from functools import wraps
from typing import Annotated, Any, get_origin

import typer

from latencytrace.service.cohort import CohortQuery

Filters = Mapping[str, str]  # as the API's query parameters spell them

_FILTERS = "wanted"  # the parameter of a command that the flags replace


def _flags() -> Iterator[inspect.Parameter]:
    """A flag for each field of a cohort's query: what may be asked for is written there."""
    for name, field in CohortQuery.model_fields.items():
        repeated = get_origin(field.annotation) is tuple
        option = typer.Option(metavar="KEY=VALUE" if repeated else None, help=field.description)
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[list[str] | None if repeated else str | None, option],
        )


FLAGS: Mapping[str, inspect.Parameter] = {flag.name: flag for flag in _flags()}


def filters(**given: str | list[str] | None) -> Filters:
    """The query parameters of what was asked for.

    Raises:
        typer.BadParameter: A value is empty, as of a shell's variable that is not set.
    """
    wanted: dict[str, str] = {}
    for name, value in given.items():
        values = value if isinstance(value, list) else [value] if value is not None else []
        if not all(one.strip() for one in values):
            raise typer.BadParameter("it is empty", param_hint=f"--{name.replace('_', '-')}")
        if isinstance(value, list):
            values = [one.replace("%", "%25").replace("&", "%26") for one in value]
        if values:
            wanted[name] = "&".join(values)
    return wanted


def with_filters(command: Callable[..., None]) -> Callable[..., None]:
    """A command with a flag for each filter in the place of its parameter `wanted`."""
    signature = inspect.signature(command)

    @wraps(command)
    def taking_flags(*args: object, **given: object) -> None:
        asked: dict[str, Any] = {name: given.pop(name) for name in FLAGS.keys() & given.keys()}
        command(*args, **given, **{_FILTERS: filters(**asked)})

    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        parameters += FLAGS.values() if name == _FILTERS else [parameter]
    shown = signature.replace(parameters=parameters)
    taking_flags.__signature__ = shown  # type: ignore[attr-defined] # what inspect, and so typer, reads
    return taking_flags
