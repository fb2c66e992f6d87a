"""Profiles as files of the data folder: the latest few, and never more than so many bytes."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import orjson

from latencytrace.errors import StoreError
from latencytrace.model.profile import is_profile_id
from latencytrace.service.storage.private_files import private_folder, read_private, write_private

NAME: Final = "profiles"
MOST: Final = 20
MOST_BYTES: Final = 512 << 20
_TRACE: Final = ".json.gz"
_ABOUT: Final = ".about.json"
_PART: Final = ".part"
_log = logging.getLogger(__name__)


class ProfileFolder:
    """Two files a profile: the trace as the agent sent it, and what it is about.

    Args:
        folder: Made when the first profile is kept.
        most: Profiles; beyond, or beyond `MOST_BYTES` of traces, the oldest go.
    """

    def __init__(self, folder: Path, *, most: int = MOST) -> None:
        self._folder = folder
        self._most = most

    def keep(self, profile_id: str, about: Mapping[str, object], packed: bytes) -> None:
        """Keep one, and delete the oldest.

        Raises:
            StoreError: The profile cannot be written.
        """
        try:
            private_folder(self._folder)
            write_private(self.trace(profile_id), packed)
            write_private(self._about(profile_id), orjson.dumps(about))
        except StoreError:
            self._forget(profile_id)
            raise
        except OSError as error:
            self._forget(profile_id)
            raise StoreError(f"the profile cannot be kept in {self._folder}: {error}") from None
        self._tidy()

    def trace(self, profile_id: str) -> Path:
        """The path of the trace of one, be it there or not."""
        return self._folder / f"{profile_id}{_TRACE}"

    def load(self) -> Iterator[tuple[str, dict[str, object]]]:
        """The profiles kept: ids, and what they are about; torn files are left out, and logged."""
        for path in sorted(self._folder.glob(f"*{_ABOUT}")):
            profile_id = path.name.removesuffix(_ABOUT)
            if not is_profile_id(profile_id):
                continue
            try:
                about = orjson.loads(read_private(path))
            except (OSError, StoreError, orjson.JSONDecodeError) as error:
                _log.warning("%s cannot be read and is left out: %s", path, error)
                continue
            if isinstance(about, dict) and self.trace(profile_id).is_file():
                yield profile_id, about

    def _about(self, profile_id: str) -> Path:
        return self._folder / f"{profile_id}{_ABOUT}"

    def _tidy(self) -> None:
        kept = [(path.stat(), path) for path in self._folder.glob(f"*{_TRACE}")]
        newest_first = sorted(kept, key=lambda one: -one[0].st_mtime_ns)
        size = 0
        for place, (found, path) in enumerate(newest_first):
            size += found.st_size
            if place and (place >= self._most or size > MOST_BYTES):
                self._forget(path.name.removesuffix(_TRACE))

    def _forget(self, profile_id: str) -> None:
        for path in (self.trace(profile_id), self._about(profile_id)):
            for name in (path.name, path.name + _PART):
                with suppress(OSError):  # a folder that cannot be written was reported before
                    path.with_name(name).unlink(missing_ok=True)
