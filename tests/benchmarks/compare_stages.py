"""Compare the stages that other tracers see of applications with ours, read by the same service.

    python -m tests.benchmarks.compare_stages FOLDER [APPLICATION…]

FOLDER has an environment for each of them, under its name (see `OTHERS`), with what the
applications need; one that is absent is passed over. docs/pages/hooks.md says what else is in
each.
"""

import sys
from pathlib import Path

from tests.benchmarks.measure_applications import OURS, ledgers_of, told

APPLICATIONS = ("openai_chat", "langgraph_agent", "flask_bert", "fastapi_sql", "llama_index_rag")
OTHERS = ("contrib", "openinference", "openllmetry", "openlit", "ddtrace")


def main(folder: Path, applications: list[str]) -> None:
    """Print a table."""
    print("| application | traced by | a request | attributed | stages |")
    print("| --- | --- | --- | --- | --- |")
    commands: dict[str, tuple[str | Path, ...]] = {"latencytrace": OURS}
    for name in OTHERS:
        python = folder.resolve() / name / "bin" / "python"
        if python.exists():
            commands[name] = (python, "-m", "tests.benchmarks.traced_by", name)
    for application in applications or APPLICATIONS:
        for name, command in commands.items():
            try:
                _, *others = ledgers_of(application, command)
            except AssertionError as error:
                print(f"| {application} | {name} | no requests: {str(error).splitlines()[0]} |")
                continue
            print(f"| {application} | {name} | {told(others)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
