"""What a program is called that nobody named."""

import shlex
from itertools import combinations
from pathlib import Path

import pytest

from latencytrace.agent.process.name import command_of, program_name

PYTHON = "/usr/bin/python3"
VENV = "/srv/.venv/bin"
FOLDER = Path("/srv/shop")  # of the project


def named(line: str, folder: Path = FOLDER) -> str:
    """The name of a program by its line, as the interpreter has it, or as it is typed."""
    words = shlex.split(line)
    if words[0] != "python":
        words = ["python", f"{VENV}/{words[0]}", *words[1:]]
    return program_name(command_of([PYTHON, *words[1:]]), folder)


@pytest.mark.parametrize(
    "line",
    [
        # The documented ways to start a server, each with a project `shop`.
        "uvicorn shop.main:app --host 0.0.0.0 --port 80",
        "uvicorn main:app",
        "uvicorn app.main:app --reload",
        "uvicorn --factory shop:create_app",
        "uvicorn --app-dir /srv/shop/src app:app",
        "gunicorn shop.wsgi",
        "gunicorn -w 4 -b 127.0.0.1:4000 shop.wsgi:application",
        "gunicorn -k uvicorn.workers.UvicornWorker -c gunicorn.conf.py shop.asgi",
        "gunicorn --preload shop.wsgi",
        "gunicorn -w 4 shop.wsgi",
        "gunicorn -m 007 shop.app.wsgi",
        "gunicorn 'shop:create_app()'",
        "hypercorn shop:app",
        "hypercorn --bind 0.0.0.0:8000 shop.asgi:application",
        "hypercorn file:shop/main.py:app",
        "daphne -b 0.0.0.0 -p 8001 shop.asgi:application",
        "granian --interface asgi shop.main:app",
        "waitress-serve --port=8041 --url-scheme=https shop:wsgifunc",
        "waitress-serve --call shop:create_app",
        "uwsgi --http :9090 --module shop.wsgi",
        "uwsgi --http :9090 --wsgi-file shop/wsgi.py",
        "uwsgi uwsgi.ini",
        "flask --app shop run",
        "flask run",
        "django-admin runserver --settings shop.settings",
        "quart --app shop.main run",
        "fastapi run shop/main.py",
        "fastapi dev main.py",
        "fastapi run",
        "streamlit run app.py",
        "chainlit run app.py -w",
        "gradio app.py",
        "bentoml serve",
        "bentoml serve service:Summary",
        "bentoml serve service.py:Summary",
        "serve run main:graph",
        "serve run config.yaml",
        "litestar --app shop.main:app run",
        "sanic shop.server:app",
        "torchrun --nproc-per-node 2 main.py",
        "mlserver start .",
        "mlserver start /srv/shop",
        "mlserver start models/",
        "functions-framework --target hello --source shop/main.py",
        "bokeh serve shop",
        "panel serve app.py --show",
        "mod_wsgi-express start-server shop/wsgi.py",
        "mcp run server.py",
        "pserve production.ini",
        "twist web --wsgi shop.wsgi.app",
        "python -m robyn app.py",
        "python -m aiohttp.web -H localhost -P 80 shop.main:app",
        "python -m debugpy --listen 5678 -m uvicorn shop.main:app",
        "python -m cProfile -o out main.py",
        "coverage run main.py",
        "python -m uvicorn shop.main:app",
        "python -m gunicorn shop.wsgi",
        "python -m flask --app shop run",
        "python -m shop",
        "python -m shop.main",
        "python main.py",
        "python /srv/shop/app.py",
        "python src/server.py --port 80",
        "python manage.py runserver 0.0.0.0:8000",
        "python -W ignore -X dev -B manage.py runserver",
        "shop --port 80",
    ],
)
def test_a_project_gives_its_name_however_it_is_served(line: str) -> None:
    assert named(line) == "shop"


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("vllm serve meta-llama/Llama-3.1-8B", "vllm"),
        ("python -m vllm.entrypoints.openai.api_server --model x", "vllm.openai"),
        ("python -m sglang.launch_server --model-path x", "sglang"),
        ("mlflow models serve -m models:/iris/3 -p 5001", "mlflow"),
        ("uvicorn mlflow.pyfunc.scoring_server.app:app", "mlflow.scoring_server"),
        ("litellm --config config.yaml", "litellm"),
        ("open-webui serve", "open-webui"),
        ("hayhooks run", "hayhooks"),
        ("python -m sklearnserver --model_name iris", "sklearnserver"),
        ("python train.py --model llama3:latest", "train"),
        ("arq shop.jobs.WorkerSettings", "shop.jobs"),
        ("dramatiq shop.tasks", "shop.tasks"),
        ("huey_consumer shop.tasks.huey -w 4", "shop.huey"),
        ("celery --app=shop.celery:app worker", "shop.worker"),
        ("rq worker gpu", "shop.worker"),
        ("torchrun -m shop.train", "shop.train"),
        ("python -c pass", "python"),
    ],
)
def test_a_program_without_a_project_is_named_after_itself(line: str, name: str) -> None:
    assert named(line) == name


@pytest.mark.parametrize(
    "lines",
    [
        (
            "python -m fastchat.serve.controller",
            "python -m fastchat.serve.model_worker --model-path x",
            "python -m fastchat.serve.openai_api_server",
        ),
        (
            "gunicorn shop.wsgi",
            "celery -A shop worker -l info",
            "celery -A shop beat",
            "python manage.py qcluster",
            "uvicorn shop.admin.main:app",
        ),
        ("uvicorn shop.main:app", "uvicorn shop.worker:app", "python -m shop.indexer"),
    ],
)
def test_the_programs_of_one_package_are_told_apart(lines: tuple[str, ...]) -> None:
    names = [named(line) for line in lines]

    assert all(one != other for one, other in combinations(names, 2))
    assert {name.split(".")[0] for name in names} <= {"shop", "fastchat"}


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("uvicorn app.main:app", "app"),
        ("uvicorn main:app", "main"),
        ("python main.py", "main"),
        ("flask run", "flask"),
    ],
)
def test_a_folder_that_tells_nothing_is_not_taken(line: str, name: str) -> None:
    assert named(line, Path("/app")) == name
    assert named(line, Path("/")) == name


def test_a_home_is_no_project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")

    assert named("uvicorn main:app", Path("/home/ada")) == "main"
    assert named("uvicorn main:app", Path("/home/ada/shop")) == "shop"


@pytest.mark.parametrize(
    ("line", "command"),
    [
        ([PYTHON, "serve.py", "-m", "x"], ("serve.py", False, ("-m", "x"))),
        ([PYTHON, "-B", "-W", "a", "-Xdev", "-m", "shop.x", "-p"], ("shop.x", True, ("-p",))),
        ([PYTHON, "-I", "-c", "pass", "x"], ("", False, ())),
        ([PYTHON, "-m"], ("", False, ())),
        ([PYTHON], ("", False, ())),
        ([], ("", False, ())),
    ],
)
def test_a_command_follows_the_options_of_its_interpreter(
    line: list[str], command: tuple[str, bool, tuple[str, ...]]
) -> None:
    assert command_of(line) == command
