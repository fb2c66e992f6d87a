"""Counts, states and waiting notifications of objectives, kept beyond a restart."""

import logging
import os
import sqlite3
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Self
from weakref import finalize

import orjson

from latencytrace.errors import StoreError
from latencytrace.model import Tally
from latencytrace.model.objective import DAY_NS
from latencytrace.service.answers.documents import AlertDocument
from latencytrace.service.objectives.tally_ring import COARSE_NS
from latencytrace.service.sink import Notification, Transition
from latencytrace.service.storage.private_files import open_private, refuse_link

FILE = "objectives.sqlite"
_log = logging.getLogger(__name__)

KEPT_DAYS = 400
MOST_PAST = 200  # alerts that are over
_FORGET_PAST = """
DELETE FROM past_alerts WHERE fingerprint NOT IN (
    SELECT fingerprint FROM past_alerts ORDER BY ended_ns DESC LIMIT ?
)
"""
# Never fewer than before: slots are gone of a day older than they are kept, and of one that the
# clock, since set back, had reached.
_KEEP_DAY = """
INSERT INTO days SELECT ?, ?, sum(bad), sum(total) FROM slots
WHERE series = ? AND length_ns = ? AND at_ns >= ? AND at_ns < ?
ON CONFLICT DO UPDATE SET bad = excluded.bad, total = excluded.total
WHERE excluded.total >= days.total
"""
_TABLES = """
CREATE TABLE IF NOT EXISTS slots (
    series TEXT, length_ns INTEGER, at_ns INTEGER, bad INTEGER, total INTEGER,
    unseen_bad INTEGER NOT NULL DEFAULT 0, unseen INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (series, length_ns, at_ns)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS states (
    series TEXT PRIMARY KEY, state TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS days (
    series TEXT, day INTEGER, bad INTEGER, total INTEGER, PRIMARY KEY (series, day)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notices (
    number INTEGER PRIMARY KEY, key TEXT, sink TEXT, transition TEXT, alert BLOB, due_ns INTEGER
);
CREATE TABLE IF NOT EXISTS past_alerts (
    fingerprint TEXT PRIMARY KEY, ended_ns INTEGER, alert BLOB
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS notes (
    name TEXT PRIMARY KEY, text TEXT
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counted (
    one INTEGER PRIMARY KEY CHECK (one = 1), until_ns INTEGER
);
"""


_SINCE_WEIGHTS = ("unseen_bad", "unseen")  # columns that slots of older versions lack


class ObjectiveMemory:
    """One file in the data folder, written after each evaluation."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        finalize(self, connection.close)  # where it is not closed
        self._lock = threading.Lock()  # one thread evaluates, one for each sink sends

    @classmethod
    def open(cls, folder: Path, now_ns: int) -> Self:
        """Open the file, or a new one where it is torn, which is then set aside.

        What is stamped later than now, before the clock was set back, is forgotten.

        Raises:
            StoreError: Neither can be had.
        """
        path = folder / FILE
        try:
            return cls(_opened(path, now_ns))
        except sqlite3.DatabaseError as error:
            if not path.exists() or isinstance(error, sqlite3.OperationalError):
                raise StoreError(f"{path} cannot be opened: {error}") from None
            aside = path.with_suffix(".torn")
            path.replace(aside)
            _log.warning(
                "%s could not be read (%s) and was set aside as %s: the counts of objectives "
                "begin anew. Delete it, or keep it for a repair by hand",
                path,
                error,
                aside,
            )
            return cls(_opened(path, now_ns))

    def slots(self, series: str) -> list[tuple[int, int, Tally]]:
        """The counts kept of a series: length of the slot, start, counts."""
        rows = self._connection.execute(
            "SELECT length_ns, at_ns, bad, total, unseen_bad, unseen FROM slots WHERE series = ?",
            (series,),
        )
        return [
            (
                length,
                at_ns,
                Tally(bad=bad, total=total, unseen_bad=unseen_bad, unseen=unseen),
            )
            for length, at_ns, bad, total, unseen_bad, unseen in rows
        ]

    def days(self, series: str) -> list[tuple[int, Tally]]:
        """The counts kept of a series by day since the epoch, which outlast its slots."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT day, bad, total FROM days WHERE series = ? ORDER BY day", (series,)
            ).fetchall()
        return [(day, Tally(bad=bad, total=total)) for day, bad, total in rows]

    def counted_until_ns(self) -> int | None:
        """The moment of writing up to which requests are in the counts; None: not known."""
        row = self._connection.execute("SELECT until_ns FROM counted").fetchone()
        return None if row is None else int(row[0])

    def note(self, name: str) -> str | None:
        """The text kept under a name."""
        row = self._connection.execute("SELECT text FROM notes WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def keep_note(self, name: str, text: str) -> None:
        """Keep a text under a name.

        Raises:
            StoreError: The disk does not take it.
        """
        try:
            with self._lock, self._connection:
                self._connection.execute("REPLACE INTO notes VALUES (?, ?)", (name, text))
        except sqlite3.Error as error:
            raise StoreError(f"{name} could not be kept: {error}") from None

    def past_alerts(self) -> list[AlertDocument]:
        """The alerts that are over, the one that ended last first."""
        with self._lock:
            rows = self._connection.execute(
                "SELECT alert FROM past_alerts ORDER BY ended_ns DESC"
            ).fetchall()
        return [orjson.loads(alert) for (alert,) in rows]

    def keep_past(self, alerts: Iterable[AlertDocument]) -> None:
        """Keep alerts that are over; where the disk refuses, they are lost."""
        rows = [(one["fingerprint"], int(one["ended"] or 0), orjson.dumps(one)) for one in alerts]
        try:
            with self._lock, self._connection:
                self._connection.executemany("REPLACE INTO past_alerts VALUES (?, ?, ?)", rows)
                self._connection.execute(_FORGET_PAST, (MOST_PAST,))
        except sqlite3.Error as error:
            _log.error("an alert that is over could not be kept: %s", error)

    def states(self) -> dict[str, str]:
        """The state kept last of each series."""
        return dict(self._connection.execute("SELECT series, state FROM states").fetchall())

    def keep(
        self,
        slots: Mapping[tuple[str, int, int], Tally],
        states: Mapping[str, str],
        forget_before: Mapping[int, int],
        notifications: Sequence[Notification] = (),
        forget_states: Iterable[str] = (),
        counted_until_ns: int | None = None,
    ) -> None:
        """Keep counts, states and notifications, all or nothing.

        Args:
            slots: Counts by series, length of the slot and its start.
            states: By series.
            forget_before: By length of the slot: what is older is not needed any more.
            forget_states: Series whose state is not needed any more.
            counted_until_ns: The moment of writing up to which requests are in the counts.

        Raises:
            StoreError: The disk does not take them; they may be kept with the next.
        """
        try:
            with self._lock, self._connection:
                self._connection.executemany(
                    "INSERT INTO notices (key, sink, transition, alert, due_ns)"
                    " VALUES (?, ?, ?, ?, ?)",
                    [
                        (one.key, one.sink, one.transition, orjson.dumps(one.alert), one.due_ns)
                        for one in notifications
                    ],
                )
                self._connection.executemany(
                    "REPLACE INTO slots VALUES (?, ?, ?, ?, ?, ?, ?)",
                    [
                        (*slot, tally.bad, tally.total, tally.unseen_bad, tally.unseen)
                        for slot, tally in slots.items()
                    ],
                )
                self._connection.executemany(_KEEP_DAY, _days_of(slots))
                self._connection.executemany(
                    "REPLACE INTO states VALUES (?, ?)", list(states.items())
                )
                if counted_until_ns is not None:
                    self._connection.execute(
                        "REPLACE INTO counted VALUES (1, ?)", (counted_until_ns,)
                    )
                self._connection.executemany(
                    "DELETE FROM states WHERE series = ?", [(series,) for series in forget_states]
                )
                self._connection.executemany(
                    "DELETE FROM slots WHERE length_ns = ? AND at_ns < ?",
                    list(forget_before.items()),
                )
                if forget_before:
                    oldest = max(forget_before.values()) // DAY_NS - KEPT_DAYS
                    self._connection.execute("DELETE FROM days WHERE day < ?", (oldest,))
        except sqlite3.Error as error:
            raise StoreError(f"the counts of objectives could not be kept: {error}") from None

    def notifications(self) -> list[Notification]:
        """The notifications still to be sent, in order."""
        rows = self._connection.execute(
            "SELECT key, sink, transition, alert, due_ns FROM notices ORDER BY number"
        )
        return [
            Notification(
                key=key,
                sink=sink,
                transition=Transition(transition),
                alert=orjson.loads(alert),
                due_ns=due_ns,
            )
            for key, sink, transition, alert, due_ns in rows
        ]

    def forget(self, notifications: Iterable[Notification]) -> None:
        """These need not be sent any more; where the disk refuses, they are sent again."""
        try:
            with self._lock, self._connection:
                self._connection.executemany(
                    "DELETE FROM notices WHERE key = ? AND sink = ?",
                    [(notification.key, notification.sink) for notification in notifications],
                )
        except sqlite3.Error as error:
            _log.error("a notification that was sent could not be struck off: %s", error)

    def close(self) -> None:
        """Let go of the file."""
        with self._lock:
            self._connection.close()


def _days_of(slots: Iterable[tuple[str, int, int]]) -> list[tuple[str | int, ...]]:
    days = {
        (series, at_ns // DAY_NS) for series, length_ns, at_ns in slots if length_ns == COARSE_NS
    }
    return [
        (series, day, series, COARSE_NS, day * DAY_NS, (day + 1) * DAY_NS) for series, day in days
    ]


def _opened(path: Path, now_ns: int) -> sqlite3.Connection:
    _make_private(path)
    # One evaluator uses it at a time; which thread that is, tests and the service choose.
    connection = sqlite3.connect(path, timeout=5, check_same_thread=False)
    try:
        _prepare(connection, now_ns)
    except BaseException:
        connection.close()
        raise
    return connection


def _prepare(connection: sqlite3.Connection, now_ns: int) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")  # safe from the death of the process
    connection.executescript(_TABLES)
    [(state,)] = connection.execute("PRAGMA quick_check(1)")
    if state != "ok":
        raise sqlite3.DatabaseError(state)
    columns = {name for _, name, *_ in connection.execute("PRAGMA table_info(slots)")}
    with connection:
        for name in _SINCE_WEIGHTS:
            if name not in columns:
                connection.execute(
                    f"ALTER TABLE slots ADD COLUMN {name} INTEGER NOT NULL DEFAULT 0"
                )
        connection.execute("DELETE FROM slots WHERE at_ns > ?", (now_ns,))
        # Days of before they were kept, and no others.
        connection.execute(
            "INSERT OR IGNORE INTO days SELECT series, at_ns / ?, sum(bad), sum(total) FROM slots"
            " WHERE length_ns = ? GROUP BY 1, 2",
            (DAY_NS, COARSE_NS),
        )


def _make_private(path: Path) -> None:
    """Make the file, whose rights SQLite gives to the two beside it, and follow no link.

    Raises:
        StoreError: It cannot be made, or one of the three is a link.
    """
    try:
        os.close(open_private(path, os.O_RDWR | os.O_CREAT))
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}") from None
    for beside in ("-wal", "-shm", "-journal"):
        refuse_link(path.with_name(path.name + beside))
