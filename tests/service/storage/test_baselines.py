"""Baselines are kept by name, within bounds, until somebody deletes them."""

import stat
from pathlib import Path

import pytest

from latencytrace.errors import NotFoundError, QuestionError, StoreError
from latencytrace.service.storage.baselines import Baseline, Baselines


def about(name: str) -> Baseline:
    return Baseline(name=name, cohort="version=1", requests=3, saved_ns=1)


def test_one_outlives_the_process_that_saved_it(tmp_path: Path) -> None:
    kept = Baselines(tmp_path / "kept").keep(about("one"), b"table")

    reopened = Baselines(tmp_path / "kept")

    assert reopened.all() == [kept]
    assert reopened.table("one") == b"table"
    assert kept.size_bytes == len(b"table")


def test_one_of_the_same_name_takes_the_place_of_the_first(tmp_path: Path) -> None:
    baselines = Baselines(tmp_path, most=1)
    baselines.keep(about("one"), b"first")
    baselines.keep(about("one"), b"second")

    assert baselines.table("one") == b"second"
    assert len(baselines.all()) == 1


def test_of_too_many_the_new_one_is_refused_and_none_forgotten(tmp_path: Path) -> None:
    baselines = Baselines(tmp_path, most=2)
    for name in ("one", "two"):
        baselines.keep(about(name), b"table")

    with pytest.raises(QuestionError, match="no more than 2: delete one"):
        baselines.keep(about("three"), b"table")

    assert [one.name for one in baselines.all()] == ["one", "two"]


def test_tables_that_would_take_too_much_room_are_refused(tmp_path: Path) -> None:
    baselines = Baselines(tmp_path, most_bytes=10)
    baselines.keep(about("one"), b"6 byte")

    with pytest.raises(QuestionError, match="delete one"):
        baselines.keep(about("two"), b"5 byt")

    assert baselines.keep(about("one"), b"10 byte ok").size_bytes == 10


@pytest.mark.parametrize("name", ["", "..", "a/b", ".hidden", "two words", "x" * 65, "a\n", "ü"])
def test_what_is_no_name_reaches_no_file(tmp_path: Path, name: str) -> None:
    baselines = Baselines(tmp_path / "kept")

    with pytest.raises(QuestionError, match="cannot name a baseline"):
        baselines.keep(about(name), b"table")
    with pytest.raises(NotFoundError):
        baselines.table(name)
    with pytest.raises(NotFoundError):
        baselines.delete(name)

    assert not (tmp_path / "kept").exists()


def test_one_that_is_deleted_is_gone(tmp_path: Path) -> None:
    baselines = Baselines(tmp_path)
    baselines.keep(about("one"), b"table")
    baselines.keep(about("two"), b"table")

    assert baselines.delete("one").name == "one"

    assert [one.name for one in baselines.all()] == ["two"]
    with pytest.raises(NotFoundError, match="no baseline is named 'one': there are two"):
        baselines.table("one")


def test_a_torn_file_is_left_out_and_the_others_are_listed(tmp_path: Path) -> None:
    baselines = Baselines(tmp_path)
    baselines.keep(about("one"), b"table")
    baselines.keep(about("two"), b"table")
    (tmp_path / "one.about.json").write_bytes(b'{"name": "o')

    assert [one.name for one in baselines.all()] == ["two"]


def test_nobody_else_can_read_them_and_links_are_refused(tmp_path: Path) -> None:
    Baselines(tmp_path / "kept").keep(about("one"), b"table")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "kept").iterdir()]
    (tmp_path / "elsewhere").write_bytes(b"not ours")
    (tmp_path / "kept" / "two.parquet.part").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(StoreError, match="symbolic link"):
        Baselines(tmp_path / "kept").keep(about("two"), b"table")

    assert modes == [0o600, 0o600]
    assert (tmp_path / "elsewhere").read_bytes() == b"not ours"
