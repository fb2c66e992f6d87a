"""All that a data folder holds."""

import json
import os
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import chdb

TABLES = ("span_arrivals", "spans", "requests")


@dataclass(frozen=True, slots=True, kw_only=True)
class DataFolder:
    """A folder's rows as text and its files as bytes, once no service has it open."""

    rows: str
    files: bytes

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Everything in a folder."""
        connection = chdb.connect(str(folder / "clickhouse"))
        try:
            rows = "".join(
                str(connection.query(f"SELECT * FROM latencytrace.{table}", "JSONEachRow").data())  # noqa: S608 - our tables
                for table in TABLES
            )
        finally:
            connection.close()
        files = b"".join(path.read_bytes() for path in files_under(folder) if path.is_file())
        return cls(rows=rows, files=files)

    def holds(self, secret: str) -> bool:
        """Whether a text is anywhere, plain or in base64."""
        in_json = json.dumps(secret, ensure_ascii=False)[1:-1]
        spellings = (secret, in_json, in_json.replace("/", "\\/"), *_in_base64(secret))
        return any(text in self.rows or text.encode() in self.files for text in spellings)


def files_under(folder: Path) -> Iterator[Path]:
    """All files; `rglob` ends where a service renames a folder that it is about to look into."""
    for parent, _, names in os.walk(folder):
        yield from (Path(parent, name) for name in names)


def _in_base64(secret: str) -> list[str]:
    """What is surely found of a secret, wherever it begins within the bytes encoded."""
    return [b64encode(b" " * offset + secret.encode()).decode()[4:-4] for offset in range(3)]
