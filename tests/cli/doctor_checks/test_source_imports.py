"""Which libraries a program names: read off source that is never run."""

from pathlib import Path

import pytest

from latencytrace.cli.doctor_checks.source_imports import imported_modules


def write(folder: Path, **files: str) -> None:
    """Files of a program, `pkg__api` for `pkg/api.py`; each would end it if it were run."""
    for name, text in files.items():
        path = folder.joinpath(*name.split("__")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\nraise SystemExit\n")


@pytest.mark.parametrize(
    ("command", "started"),
    [
        (("python", "pkg/main.py", "--port", "80"), set()),
        (("python", "-m", "pkg.main"), set()),
        (("/venv/bin/python3", "-m", "granian", "pkg.main:app"), {"granian"}),
        (("uvicorn", "pkg.main:app", "--workers", "2"), {"uvicorn"}),
        (("bin/gunicorn", "pkg.main:make()"), {"gunicorn"}),
        (("waitress-serve", "pkg.main:app"), {"waitress"}),
        (("celery", "--app=pkg.main", "worker"), {"celery"}),
    ],
)
def test_a_commands_program_is_found_however_it_is_named_and_what_starts_it(
    tmp_path: Path, command: tuple[str, ...], started: set[str]
) -> None:
    write(tmp_path, pkg__main="import httpx")

    assert imported_modules(command, tmp_path) == frozenset({"httpx", *started})


def test_files_of_its_own_are_followed_and_are_no_libraries(tmp_path: Path) -> None:
    write(
        tmp_path,
        app="from pkg import api\nimport helpers",
        helpers="def late():\n    import redis.asyncio",
        pkg__api="from .deep.store import find\nfrom . import api",
        pkg__deep__store="from qdrant_client import QdrantClient\nimport app",
    )
    (tmp_path / "pkg" / "__init__.py").write_text("import torch")

    assert imported_modules(("python", "app.py"), tmp_path) == frozenset(
        {
            "redis.asyncio",
            "qdrant_client",
            "qdrant_client.QdrantClient",
            "torch",
        }
    )


def test_a_file_that_cannot_be_read_as_python_hides_only_itself(tmp_path: Path) -> None:
    write(tmp_path, app="import broken, odd, httpx", broken="def (")
    (tmp_path / "odd.py").write_bytes(b"\x00\xff")

    assert imported_modules(("python", "app.py"), tmp_path) == frozenset({"httpx"})


def test_words_that_no_file_can_be_called_are_passed_over(tmp_path: Path) -> None:
    write(tmp_path, app="import httpx")
    secret = "k" * 300

    found = imported_modules(("python", "app.py", f"--api-key={secret}", f"{secret}.py"), tmp_path)

    assert found == frozenset({"httpx"})


def test_warnings_about_the_programs_source_are_left_to_it(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    write(tmp_path, app=r"import httpx; one = '\d'")

    assert imported_modules(("python", "app.py"), tmp_path) == frozenset({"httpx"})
    assert not recwarn


def test_a_command_without_source_here_says_nothing_of_its_imports(tmp_path: Path) -> None:
    assert imported_modules(("uvicorn", "elsewhere:app"), tmp_path) is None
