"""Libraries that programs serve with and that no hook times: what to do instead."""

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from latencytrace.cli.doctor_checks.used import Used
from latencytrace.model.stage import Stage
from latencytrace.service.answers.findings.finding import Finding, Verdict

# The stage that its calls would mostly be of, by distribution.
UNHOOKED: Final = {
    **dict.fromkeys(
        (
            "annoy", "pgvecto-rs", "turbopuffer", "whoosh",
        ),
        Stage.RETRIEVE,
    ),
    **dict.fromkeys(
        (
            "cassandra-driver", "clickhouse-connect", "mysqlclient", "neo4j", "oracledb",
            "pymssql", "pymysql", "pyodbc", "snowflake-connector-python",
        ),
        Stage.DATABASE,
    ),
    **dict.fromkeys(
        (
            "flair", "mlx", "tensorflow", "tensorrt", "timm", "tritonclient",
        ),
        Stage.FORWARD,
    ),
    "model2vec": Stage.EMBED,
    **dict.fromkeys(("exllamav2", "mlx-lm", "sglang", "tensorrt-llm", "vllm"), Stage.DECODE),
    **dict.fromkeys(("groq", "together", "voyageai"), Stage.REMOTE_MODEL),
    "librosa": Stage.PREPROCESS,
    "diskcache": Stage.CACHE,
}  # fmt: skip
_TORCH: Final = "torch"
# Their hooks time the models of torch that they run.
_RUN_TORCH: Final = ("transformers", "sentence-transformers", "infinity-emb", "diffusers")


def unhooked_findings(used: Used, about: str, *, torch_named: bool) -> Iterator[Finding]:
    """Name what the program imports and no hook times.

    Args:
        used: What the program imports.
        about: The heading.
        torch_named: Whether the settings name modules of torch.
    """
    for name, stage in UNHOOKED.items():
        if used.imports(name):
            yield _note(
                about,
                f"{_with_version(name)}: no hook times it",
                f'with latencytrace.stage("{stage}"):',
            )
    by_itself = used.imports(_TORCH) and not any(used.imports(name) for name in _RUN_TORCH)
    if by_itself and not torch_named:
        yield _note(
            about,
            f"{_with_version(_TORCH)}: modules are timed by name",
            "export LATENCYTRACE_TORCH_MODULES=… the classes that matter",
        )


def _with_version(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return name


def _note(about: str, what: str, fix: str) -> Finding:
    return Finding(about=about, verdict=Verdict.NOTE, what=what, fix=fix)
