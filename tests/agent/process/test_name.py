"""What a program is called that nobody named."""

import pytest

from latencytrace.agent.process.name import arguments_of, program_name

PYTHON = "/usr/bin/python3"


@pytest.mark.parametrize(
    ("argv", "name"),
    [
        (["/usr/bin/uvicorn", "app:app"], "app"),
        (["/usr/bin/uvicorn", "--port", "80", "shop.main:create()"], "main"),
        (
            ["/usr/bin/gunicorn", "-b", "localhost:80", "-k", "uvicorn.workers.X", "shop:app"],
            "shop",
        ),
        (["serve.py", "--port", "80"], "serve"),
        (["/srv/shop/__main__.py"], "shop"),
        (["-c"], "python"),
        ([], "python"),
    ],
)
def test_a_program_that_nobody_named_is_named_after_itself(argv: list[str], name: str) -> None:
    assert program_name(argv) == name


@pytest.mark.parametrize(
    ("line", "arguments"),
    [
        ([PYTHON, "serve.py", "-m", "x"], ["serve.py", "-m", "x"]),
        ([PYTHON, "-B", "-W", "ignore", "-Xdev", "-m", "shop.server", "-p"], ["shop", "-p"]),
        ([PYTHON, "-I", "-c", "pass", "x"], ["-c", "x"]),
        ([PYTHON, "-m"], []),
        ([PYTHON], []),
        ([], []),
    ],
)
def test_the_arguments_of_a_program_follow_those_of_its_interpreter(
    line: list[str], arguments: list[str]
) -> None:
    assert arguments_of(line) == arguments
