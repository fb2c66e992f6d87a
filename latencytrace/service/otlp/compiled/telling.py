"""A cheap look at texts: whether `plain_text` may find anything in them to take out.

A state machine over bytes; it says yes of all texts that `plain_text` would change, and of few
others (`tests/service/otlp/test_scanner.py`).
"""

from collections import deque
from string import ascii_lowercase, ascii_uppercase
from typing import Final

import numpy as np
from numpy.typing import NDArray

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


def machine() -> tuple[NDArray[np.uint8], NDArray[np.uint16], NDArray[np.uint8]]:
    """The classes of bytes; the next state by state plus class; what was found by state.

    Source: Aho and Corasick, "Efficient string matching", Communications of the ACM, 1975.
    """
    finds = dict.fromkeys(_ANYWHERE, HIT) | dict.fromkeys(_BEFORE_COLON, SECRET_WORD)
    finds[":"] = COLON
    letters = sorted(set("".join(finds)))
    classes = np.zeros(256, np.uint8)  # 0: in none of the words
    for number, letter in enumerate(letters, start=1):
        classes[ord(letter)] = number
        if letter in ascii_lowercase:
            classes[ord(letter.upper())] = number
    unfit = len(letters) + 1
    classes[[*range(0x20), 0x7F, *range(_ASCII, 256)]] = unfit
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
    return classes, (states.astype(np.uint16) * width).ravel(), found_by_row


def _completed(
    children: list[dict[int, int]], found: list[int], width: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Say of each state where all others go: to the longest word that they may begin."""
    states = np.zeros((len(children), width), np.uint8)
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
