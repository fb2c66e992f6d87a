"""`python tests/repository/grafana/make_schema.py`: derive schema.json from Grafana's types.

Needs npm. Grafana publishes TypeScript (the package @grafana/schema, Apache-2.0), no JSON
Schema: it is derived by ts-json-schema-generator, and its descriptions are left out.
"""

import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

FOLDER = Path(__file__).parent
VERSIONS = ("11.6.0", "12.0.0")
PACKAGES = (
    "grafana-schema-10@npm:@grafana/schema@10.4.0",
    "typescript@5.9",
    "ts-json-schema-generator@2.4.0",
)
OPTIONS = {
    "strict": True,
    "module": "esnext",
    "moduleResolution": "node",
    "target": "es2020",
    "skipLibCheck": True,
}


def main() -> None:
    """Write it."""
    source = "derived from @grafana/schema (Apache-2.0, Grafana Labs) by make_schema.py"
    versions = {version: schemas(version) for version in VERSIONS}
    written = json.dumps({"source": source, **versions}, indent=1, sort_keys=True)
    (FOLDER / "schema.json").write_text(f"{written}\n")


def schemas(version: str) -> dict[str, object]:
    """The schema of each type in one version of Grafana."""
    kinds = FOLDER / "kinds.ts"
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(kinds, folder)
        made_for = {"compilerOptions": OPTIONS, "include": [kinds.name]}
        (Path(folder) / "tsconfig.json").write_text(json.dumps(made_for))
        package = f"@grafana/schema@{version}"
        run(folder, "npm", "install", "--silent", "--no-fund", "--no-audit", package, *PACKAGES)
        names = re.findall(r"^export type (\w+)", kinds.read_text(), re.MULTILINE)
        return {name: schema(folder, name) for name in names}


def schema(folder: str, name: str) -> object:
    """The schema of one type."""
    command = "npx --no-install ts-json-schema-generator --no-type-check -f tsconfig.json"
    return undescribed(json.loads(run(folder, *command.split(), "-p", "kinds.ts", "-t", name)))


def undescribed(part: object) -> object:
    """The same without texts for readers."""
    if isinstance(part, dict):
        return {
            key: undescribed(value)
            for key, value in part.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [undescribed(value) for value in part] if isinstance(part, list) else part


def run(folder: str, *command: str) -> str:
    """What a command prints."""
    return subprocess.run(
        command, cwd=folder, check=True, stdout=subprocess.PIPE, encoding="utf-8"
    ).stdout


main()
