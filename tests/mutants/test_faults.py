"""Faults are exact edits that change a program, drawn by a seed."""

import ast
from pathlib import Path

import pytest

from tests.mutants.__main__ import again, all_faults
from tests.mutants.faults import ROOMS, Fault, faults, picked

ROOT = Path(__file__).parents[2]
SOURCE = '''"""A docstring of 3 words."""


def shortest(values: list[int], least: "int | None" = None) -> str:
    """Say 2 things."""
    found = []
    for value, _ in zip(values, values, strict=True):  # ä: two bytes
        if value < 0 and least is not None:
            continue
        found.append(min(divmod(value, 7)[0], 9))
    return f"{len(found) + 1} of {values[0]}" if found else "none"
'''
EDITS = {
    ("comparison", "value < 0", "(value <= 0)"),
    ("comparison", "least is not None", "(least is None)"),
    ("and-or", "value < 0 and least is not None", "(value < 0 or least is not None)"),
    ("condition", "value < 0 and least is not None", "(not (value < 0 and least is not None))"),
    ("condition", "found", "(not (found))"),
    ("off-by-one", "0", "1"),
    ("off-by-one", "7", "8"),
    ("statement", "continue", "pass"),
    ("off-by-one", "9", "10"),
    ("statement", "found.append(min(divmod(value, 7)[0], 9))", "pass"),
    ("arguments", "divmod(value, 7)", "(divmod(7, value))"),
}


def test_a_source_has_a_fault_of_each_kind_and_none_in_its_texts_and_types() -> None:
    found = faults("a.py", SOURCE)

    assert {(one.kind, one.before, one.after) for one in found} == EDITS
    assert {one.within for one in found} == {"shortest"}


@pytest.fixture(scope="module")
def made() -> list[Fault]:
    """All faults of all rooms."""
    return all_faults()


@pytest.mark.long
def test_a_fault_is_one_edit_of_the_file_and_another_program(made: list[Fault]) -> None:
    for fault in picked(made, 60, seed=3):
        source = (ROOT / fault.file).read_bytes()
        edited = fault.applied(source)

        assert source[fault.start : fault.end].decode() == fault.before
        assert edited.startswith(source[: fault.start])
        assert edited.endswith(source[fault.end :])
        assert ast.dump(ast.parse(edited)) != ast.dump(ast.parse(source))


def test_a_file_with_functions_that_forms_in_c_stand_in_for_is_marked() -> None:
    source = "@quicker('sums')\ndef added(a, b):\n    return less(a, b) + b\n"
    other = "def less(a, b):\n    return a - b\n"

    alone = faults("a.py", other)
    together = faults("a.py", source + other)

    assert {one.plain for one in alone} == {False}
    assert {(one.within, one.plain) for one in together} == {("added", True), ("less", True)}


def test_a_seed_draws_the_same_faults_and_another_one_others(made: list[Fault]) -> None:
    assert picked(made, 60, seed=1) == picked(made, 60, seed=1) != picked(made, 60, seed=2)


def test_every_room_has_its_part(made: list[Fault]) -> None:
    drawn = picked(made, 60, seed=1)

    for room in ROOMS:
        assert sum(f"/{room}/" in one.file for one in drawn) >= 5


@pytest.mark.parametrize("shift", ["", "NEW = 1\n\n\n"])
def test_the_faults_of_an_earlier_run_are_found_again_where_they_moved(shift: str) -> None:
    earlier = faults("a.py", SOURCE)
    as_kept = [
        {
            "fault": {
                key: getattr(one, key) for key in ("file", "within", "kind", "before", "after")
            }
        }
        for one in earlier
    ]

    today = faults("a.py", SOURCE.replace("def shortest", f"{shift}def shortest"))

    assert [one.name for one in again(as_kept, today)] == [one.name for one in earlier]
    assert again(as_kept, []) == []
