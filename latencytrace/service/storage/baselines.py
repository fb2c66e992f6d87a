"""Baselines: cohorts that were saved by name to be compared with, as files of the data folder."""

import logging
import re
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Final

import orjson

from latencytrace.errors import NotFoundError, QuestionError, StoreError
from latencytrace.service.storage.private_files import private_folder, read_private, write_private

NAME: Final = "baselines"  # of the folder
MOST: Final = 50
MOST_BYTES: Final = 1 << 30
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_TABLE: Final = ".parquet"
_ABOUT: Final = ".about.json"
_PART: Final = ".part"
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Baseline:
    """A cohort that was saved."""

    name: str
    cohort: str  # as it was written
    requests: int
    saved_ns: int  # since the Unix epoch
    size_bytes: int = 0
    # The mean time of each named part, by stage; empty: an older version did not keep it.
    parts: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


class Baselines:
    """Two files a baseline: the table of its ledgers, and what it is about.

    Args:
        folder: Made when the first baseline is kept.
        most: How many are kept; a new one beyond is refused, none is ever forgotten.
        most_bytes: Most bytes of all tables.
    """

    def __init__(self, folder: Path, *, most: int = MOST, most_bytes: int = MOST_BYTES) -> None:
        self._folder = folder
        self._most = most
        self._most_bytes = most_bytes
        self._writing = threading.Lock()

    @staticmethod
    def check(name: str) -> None:
        """Refuse what cannot be a name.

        Raises:
            QuestionError: The name cannot be used.
        """
        if not _NAME.fullmatch(name):
            raise QuestionError(
                f"{name!r} cannot name a baseline: use at most 64 letters, digits, dots, "
                "dashes and underscores, a letter or digit first"
            )

    def keep(self, about: Baseline, table: bytes) -> Baseline:
        """Keep one, in the place of the one of that name.

        Returns:
            It, with its size.

        Raises:
            QuestionError: The name cannot be used, or there is no room.
            StoreError: The baseline cannot be written.
        """
        self.check(about.name)
        kept = replace(about, size_bytes=len(table))
        with self._writing:
            others = [one for one in self.all() if one.name != about.name]
            if len(others) >= self._most:
                raise QuestionError(
                    f"{len(others)} baselines are kept, and no more than {self._most}: delete "
                    "one with `latencytrace compare --delete NAME`"
                )
            size = len(table) + sum(one.size_bytes for one in others)
            if size > self._most_bytes:
                raise QuestionError(
                    f"the baselines would take {size >> 20:,} MiB of {self._most_bytes >> 20:,}: "
                    "delete one with `latencytrace compare --delete NAME`, or save a shorter time"
                )
            try:
                private_folder(self._folder)
                write_private(self._path(about.name, _TABLE), table)
                write_private(self._path(about.name, _ABOUT), orjson.dumps(asdict(kept)))
            except OSError as error:
                self._forget(about.name, _PART)
                raise StoreError(
                    f"the baseline cannot be kept in {self._folder}: {error}"
                ) from None
        return kept

    def all(self) -> Sequence[Baseline]:
        """Saved baselines in order of name; a torn file is left out, and logged."""
        found = []
        for path in sorted(self._folder.glob(f"*{_ABOUT}")):
            try:
                one = Baseline(**orjson.loads(read_private(path)))
            except (OSError, StoreError, TypeError, ValueError) as error:
                _log.warning("%s cannot be read and is left out: %s", path, error)
                continue
            if one.name == path.name.removesuffix(_ABOUT) and self._is_kept(one.name):
                found.append(one)
        return found

    def table(self, name: str) -> bytes:
        """The ledgers of one, as Parquet.

        Raises:
            NotFoundError: None has that name.
            StoreError: The baseline cannot be read.
        """
        self.refuse_unknown(name)
        try:
            return read_private(self._path(name, _TABLE))
        except OSError as error:
            raise StoreError(f"the baseline {name} cannot be read: {error}") from None

    def part_means(self, name: str) -> Mapping[str, Mapping[str, float]] | None:
        """The mean time of each named part of one, by stage; None: that is not known."""
        return next((one.parts or None for one in self.all() if one.name == name), None)

    def delete(self, name: str) -> Baseline:
        """Forget one, and return what it was.

        Raises:
            NotFoundError: None has that name.
        """
        with self._writing:
            known = {one.name: one for one in self.all()}
            if name not in known:
                self.refuse_unknown(name)
                raise NotFoundError(f"no baseline is named {name}")
            self._forget(name, "")
        return known[name]

    def refuse_unknown(self, name: str) -> None:
        """Refuse the name of none.

        Raises:
            NotFoundError: None has that name; the message says which there are.
        """
        if self._is_kept(name):
            return
        names = ", ".join(one.name for one in self.all())
        raise NotFoundError(
            f"no baseline is named {name!r}: "
            + (f"there are {names}" if names else "none is saved")
            + "; save one with `latencytrace compare COHORT --save NAME`"
        )

    def _is_kept(self, name: str) -> bool:
        return bool(_NAME.fullmatch(name)) and self._path(name, _TABLE).is_file()

    def _path(self, name: str, ending: str) -> Path:
        return self._folder / f"{name}{ending}"

    def _forget(self, name: str, more: str) -> None:
        for ending in (_ABOUT, _TABLE):
            with suppress(OSError):  # what cannot be removed is listed still
                self._path(name, ending + more).unlink(missing_ok=True)
