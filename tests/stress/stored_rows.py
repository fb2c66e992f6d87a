"""The rows that a data folder holds, read past the service once that has ended.

    python tests/stress/stored_rows.py FOLDER

It is a program: the engine takes one folder a process.
"""

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import chdb


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRows:
    """What is in the tables."""

    requests: list[tuple[str, str]]  # trace and span id, once for each row that is read
    spans_of: dict[str, int]  # different spans that are stored, by trace id

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Read a folder in a process of its own."""
        done = subprocess.run(
            [sys.executable, __file__, str(folder)], capture_output=True, check=True
        )
        told = json.loads(done.stdout)
        return cls(
            requests=[(trace_id, span_id) for trace_id, span_id in told["requests"]],
            spans_of=dict(told["spans_of"]),
        )


def main(folder: Path) -> None:
    """Write the rows as JSON."""
    connection = chdb.connect(str(folder / "clickhouse"))

    def rows(question: str) -> list[list[object]]:
        lines = str(connection.query(question, "JSONCompactEachRow").data()).splitlines()
        return [json.loads(line) for line in lines]

    answer = {
        "requests": rows(
            "SELECT TraceId, SpanId FROM latencytrace.requests FINAL WHERE NOT Moved"
        ),
        "spans_of": rows(
            "SELECT TraceId, toUInt32(uniqExact(SpanId)) FROM "
            "(SELECT TraceId, SpanId FROM latencytrace.span_arrivals "
            "UNION ALL SELECT TraceId, SpanId FROM latencytrace.spans) GROUP BY TraceId"
        ),
    }
    connection.close()
    sys.stdout.write(json.dumps(answer))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
