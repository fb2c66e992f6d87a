"""A torn data folder made readable again without touching a row.

Parts that are torn the engine sets aside by itself. Torn definitions it cannot start
with; they are the same in every folder, so they are set aside and made anew.
"""

from datetime import UTC, datetime
from pathlib import Path

from latencytrace.service.sql.tables import UUIDS

_DEFINITIONS = "metadata"
_FORMAT = "format_version.txt"
_FORMAT_TEXT = b"1"


def has_data(engine_folder: Path, uuid: str) -> bool:
    """Whether a table has a folder of its own, defined or not."""
    return _data_folder(engine_folder, uuid).is_dir()


def set_definitions_aside(engine_folder: Path) -> Path | None:
    """Rename the definitions, so that the engine starts without a table.

    Returns:
        Where they are now; None: there were none, so that they are not at fault.
    """
    definitions = engine_folder / _DEFINITIONS
    if not definitions.is_dir():
        return None
    for uuid in UUIDS.values():
        version = _data_folder(engine_folder, uuid) / _FORMAT
        # The engine writes it anew; there has only ever been this one.
        if version.exists() and version.read_bytes() != _FORMAT_TEXT:
            version.unlink()
    now = datetime.now(UTC)
    return definitions.rename(engine_folder / f"{_DEFINITIONS}.torn-{now:%Y%m%dT%H%M%S%f}")


def put_back(engine_folder: Path, aside: Path) -> None:
    """Undo `set_definitions_aside` where it did not help."""
    fresh = engine_folder / _DEFINITIONS
    if fresh.is_dir():
        fresh.rename(f"{aside}-unused")
    aside.rename(fresh)


def _data_folder(engine_folder: Path, uuid: str) -> Path:
    return engine_folder / "store" / uuid[:3] / uuid
