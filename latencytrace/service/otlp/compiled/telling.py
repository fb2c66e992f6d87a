"""A cheap look at texts: whether `plain_text` may find anything in them to take out.

A state machine over bytes; it says yes of all texts that `plain_text` would change, and of few
others (`tests/service/otlp/test_scanner.py`). Likewise of keys whose values may be content.
"""

from collections import deque
from collections.abc import Mapping
from string import ascii_lowercase, ascii_uppercase
from typing import Final

import numpy as np
from numpy.typing import NDArray

from latencytrace.service.otlp.content_keys import PLAIN_CHARACTERS, TELLING_PARTS

HIT: Final = 1
SECRET_WORD: Final = 2  # suspicious before a colon
COLON: Final = 4

_ANYWHERE: Final = (
    "%", "?", "#", "@", "=", "data:", "earer", "basic", "sk-", "sk_", "pk-", "pk_", "rk-", "rk_",
    "r8_", "r8-", "eyj", "github_", "glpat", "akia", "asia", "xox", "aiza", "hf_", "nvapi",
    "-----", '{"', "{'", "{ ", "[{", "[ ", *(f"gh{letter}_" for letter in ascii_lowercase),
)  # fmt: skip
_BEFORE_COLON: Final = ("pass", "pwd", "secret", "token", "credential", "key")
_ASCII = 0x80

Machine = tuple[NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint8]]


def of_texts() -> Machine:
    """The machine that tells of values and names."""
    finds = dict.fromkeys(_ANYWHERE, HIT) | dict.fromkeys(_BEFORE_COLON, SECRET_WORD)
    return _machine({**finds, ":": COLON}, bytes([*range(0x20), 0x7F, *range(_ASCII, 256)]))


def of_keys() -> Machine:
    """The machine that tells the kinds of keys that are not plain, unknown ones excepted."""
    unfit = set(range(256)) - set(PLAIN_CHARACTERS.encode())
    return _machine(dict.fromkeys((*_ANYWHERE, *TELLING_PARTS), HIT), bytes(unfit))


def _machine(finds: Mapping[str, int], unfit_bytes: bytes) -> Machine:
    """The classes of bytes; the next state by state plus class; what was found by state.

    Args:
        finds: Words in lower case, and what each says.
        unfit_bytes: A hit, each.

    Source: Aho and Corasick, "Efficient string matching", Communications of the ACM, 1975.
    """
    letters = sorted(set("".join(finds)))
    classes = np.zeros(256, np.uint8)  # 0: in none of the words
    for number, letter in enumerate(letters, start=1):
        classes[ord(letter)] = number
        if letter in ascii_lowercase:
            classes[ord(letter.upper())] = number
    unfit = len(letters) + 1
    classes[list(unfit_bytes)] = unfit
    children: list[dict[int, int]] = [{unfit: 1}, {}]
    found = [0, HIT]
    for word, what in finds.items():
        state = 0
        for letter in word:
            number = int(classes[ord(letter)])
            if number not in children[state]:
                children[state][number] = len(children)
                children.append({})
                found.append(0)
            state = children[state][number]
        found[state] |= what
    width = unfit + 1
    states, found_by_state = _completed(children, found, width)
    found_by_row = np.zeros(states.size, np.uint8)
    found_by_row[::width] = found_by_state
    return classes, (states * width).astype(np.uint16).ravel(), found_by_row


def _completed(
    children: list[dict[int, int]], found: list[int], width: int
) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
    """Say of each state where all others go: to the longest word that they may begin."""
    states = np.zeros((len(children), width), np.int64)
    behind = [0] * len(children)
    open_states = deque([0])
    while open_states:
        state = open_states.popleft()
        for number in range(width):
            child = children[state].get(number)
            shorter = int(states[behind[state], number]) if state else 0
            if child is None:
                states[state, number] = shorter
                continue
            states[state, number] = child
            behind[child] = shorter
            found[child] |= found[shorter]
            open_states.append(child)
    return states, np.array(found, np.uint8)


assert set(ascii_uppercase).isdisjoint("".join(_ANYWHERE))  # noqa: S101 - bytes are lowered first
