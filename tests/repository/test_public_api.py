"""What users may rely on: the public names, and that importing us costs nothing."""

import inspect
import json

import pytest

import latencytrace
from tests.support.servers.command_line import python

PUBLIC = {
    "AgentStatus",
    "Ticket",
    "agent_status",
    "batch",
    "enqueue",
    "flush",
    "instrument",
    "request",
    "stage",
    "uninstrument",
}
HEAVY = {"torch", "fastapi", "numpy", "chdb", "pyarrow", "transformers", "requests", "starlette"}


def loaded_by(code: str) -> set[str]:
    """The top-level modules that a program has loaded."""
    done = python(
        "-c", f"{code}\nimport json, sys\nprint(json.dumps(list(sys.modules)))", check=True
    )
    return {name.partition(".")[0] for name in json.loads(done.stdout)}


def test_the_public_names_are_exactly_the_listed_ones() -> None:
    assert set(latencytrace.__all__) == PUBLIC
    assert {name for name in dir(latencytrace) if not name.startswith("_")} >= PUBLIC


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_every_public_name_is_there_and_documented(name: str) -> None:
    assert inspect.getdoc(getattr(latencytrace, name))


def test_a_public_name_is_looked_up_once() -> None:
    assert vars(latencytrace).pop("stage", latencytrace.stage) is latencytrace.stage

    assert vars(latencytrace)["stage"] is latencytrace.stage


def test_an_unknown_name_is_an_attribute_error_as_of_any_module() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        latencytrace.no_such_name  # noqa: B018 - reading it is the test


@pytest.mark.parametrize(
    ("name", "signature"),
    [
        ("stage", "(name: str, **attributes: "),
        ("request", "(name: str, **attributes: "),
        ("enqueue", "(*, tokens: int | None = None) -> "),
        ("batch", "(tickets: "),
        ("flush", "(timeout_s: float = 5.0) -> bool"),
        ("uninstrument", "() -> None"),
        ("agent_status", "() -> "),
    ],
)
def test_the_signatures_are_those_of_the_contract(name: str, signature: str) -> None:
    assert str(inspect.signature(getattr(latencytrace, name))).startswith(signature)


def test_instrument_takes_its_name_first_and_the_rest_by_name() -> None:
    parameters = inspect.signature(latencytrace.instrument).parameters.values()

    assert [(p.name, p.kind.name, p.default) for p in parameters] == [
        ("service_name", "POSITIONAL_OR_KEYWORD", None),
        ("endpoint", "KEYWORD_ONLY", None),
        ("hooks", "KEYWORD_ONLY", None),
        ("gpu", "KEYWORD_ONLY", None),
    ]


@pytest.mark.parametrize(
    "code",
    [
        "import latencytrace",
        "import latencytrace; latencytrace.stage",
        "import latencytrace.cli",
        "import latencytrace.cli.app",
        "import latencytrace.cli.command_line",
    ],
)
def test_importing_loads_nothing_heavy(code: str) -> None:
    assert loaded_by(code) & HEAVY == set()


def test_importing_alone_does_not_even_load_opentelemetry() -> None:
    assert "opentelemetry" not in loaded_by("import latencytrace")


def test_starting_a_program_with_run_loads_none_of_the_other_commands() -> None:
    loaded = loaded_by("import latencytrace.cli")

    assert loaded & {"httpx", "opentelemetry", "rich", "typer"} == set()
