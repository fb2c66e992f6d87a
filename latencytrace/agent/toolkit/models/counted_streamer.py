"""Counts the tokens that a generation of `transformers` hands to a streamer."""

from collections.abc import Callable
from typing import Any, Final, Protocol

from latencytrace.agent.guard import OnFault, guarded

_HAND_ON: Final = "on_finalized_text"  # of a streamer of text


class StreamedGeneration(Protocol):
    """The generation whose tokens are streamed."""

    def streamed(self, tokens: int) -> None:
        """Note that tokens were made that a streamer gets; so many may leave at once."""

    def let_go(self, tokens: int) -> None:
        """Note that a streamer lets tokens go that it held back."""


def _no_text(*_: object) -> None:
    """Hand nothing on: a streamer of tokens."""


class CountedStreamer:
    """A streamer that `generate` hands its tokens to; the first it gets are the prompt's.

    A token is counted before the streamer may hand it on, for another thread sends it at once.
    A streamer of text hands on whole words, and the token that begins the next one is held.
    """

    def __init__(self, generation: StreamedGeneration, streamer: Any, on_fault: OnFault) -> None:
        self._generation = generation
        self._streamer = streamer
        self._on_fault = on_fault
        self._prompt_is_next = True
        self._held = 0
        self._of_text = hasattr(streamer, _HAND_ON)
        self._programs = getattr(streamer, "__dict__", {}).get(_HAND_ON)  # set by the program
        self._hand_on: Callable[..., Any] = getattr(streamer, _HAND_ON, _no_text)
        if self._of_text:
            setattr(streamer, _HAND_ON, self._handing_on)

    @property  # type: ignore[misc] # to `isinstance` it is what it stands for
    def __class__(self) -> type:
        return type(self._streamer)

    def put(self, value: Any) -> Any:
        """Count the tokens, then hand them on."""
        with guarded("counting streamed tokens", self._on_fault):
            if self._prompt_is_next:
                self._prompt_is_next = False
            elif not self._of_text:
                self._generation.streamed(value.numel())
            else:
                self._held += value.numel()
                self._generation.streamed(0)
        return self._streamer.put(value)

    def _handing_on(self, text: str, *args: Any, **kwargs: Any) -> Any:
        with guarded("counting streamed words", self._on_fault):
            if text:
                ends = any(args) or any(kwargs.values())
                held = 1 if self._held and text.endswith(" ") and not ends else 0
                self._generation.let_go(self._held - held)
                self._held = held
        return self._hand_on(text, *args, **kwargs)

    def restore(self) -> None:
        """Leave the program's streamer as it was."""
        with guarded("leaving a streamer", self._on_fault):
            if self._of_text and self._programs is not None:
                setattr(self._streamer, _HAND_ON, self._programs)
            elif self._of_text:
                delattr(self._streamer, _HAND_ON)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._streamer, name)


def counted_streamer(
    generation: StreamedGeneration,
    streamer: Any,
    on_fault: OnFault,
) -> CountedStreamer | None:
    """The streamer with its tokens counted; None: it cannot be."""
    with guarded("counting a streamer's tokens", on_fault):
        return CountedStreamer(generation, streamer, on_fault)
    return None
