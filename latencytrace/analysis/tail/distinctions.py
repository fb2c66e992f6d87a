"""What sets bad requests apart from good ones, beside their stages."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from latencytrace.model import Distinction, Request

Traits = Mapping[str, str | int]

LEAST_REQUESTS = 10  # of each kind: of fewer nothing can be said
LEAST_DIFFERENCE = 0.25  # of the two shares
MOST = 3
_MOST_CHARACTERS = 100  # of a name
_QUANTILE = 0.9  # of good requests: what is above it is unusual


def traits_of(request: Request) -> Traits:
    """What a request can be distinguished by; what is unknown is left out."""
    known: dict[str, str | int | None] = {
        "route": request.route,
        "instance": request.instance,
        "version": request.version,
        "model": request.model,
        "status": str(request.status),
        "finish_reason": request.finish_reason,
        "input_tokens": request.input_tokens,
        "output_tokens": request.output_tokens,
        "batch_size": request.batch_size,
    }
    return {
        name: _shown(value) if isinstance(value, str) else value
        for name, value in known.items()
        if value is not None
    }


def distinctions(bad: Sequence[Traits], good: Sequence[Traits]) -> tuple[Distinction, ...]:
    """Compare what bad requests have with what good ones have.

    Returns:
        What most bad requests have and good ones have clearly less, the greatest
        difference first; names are compared by value, numbers by whether they exceed
        what nine of ten good requests have.
    """
    if min(len(bad), len(good)) < LEAST_REQUESTS:
        return ()
    found = [
        one
        for name in dict.fromkeys(name for traits in bad for name in traits)
        for one in _of_trait(name, bad, good)
        if one.bad_ratio - one.good_ratio >= LEAST_DIFFERENCE
    ]
    return tuple(sorted(found, key=lambda one: one.good_ratio - one.bad_ratio)[:MOST])


def _shown(text: str) -> str:
    """What a sender calls itself, fit for logs, terminals and messages."""
    if text.isprintable() and len(text) <= _MOST_CHARACTERS:
        return text
    printable = (character if character.isprintable() else "?" for character in text)
    return "".join(printable)[:_MOST_CHARACTERS]


def _of_trait(name: str, bad: Sequence[Traits], good: Sequence[Traits]) -> Iterator[Distinction]:
    numbers = sorted(value for traits in good if isinstance(value := traits.get(name), int))
    if len(numbers) >= LEAST_REQUESTS:
        bound = numbers[int(_QUANTILE * (len(numbers) - 1))]
        yield Distinction(
            trait=name,
            value=f"over {bound}",
            bad_ratio=_share_over(name, bound, bad),
            good_ratio=_share_over(name, bound, good),
        )
        return
    [(value, bad_count)] = Counter(traits[name] for traits in bad if name in traits).most_common(1)
    if isinstance(value, str):
        good_count = sum(traits.get(name) == value for traits in good)
        yield Distinction(
            trait=name,
            value=value,
            bad_ratio=bad_count / len(bad),
            good_ratio=good_count / len(good),
        )


def _share_over(name: str, bound: int, requests: Sequence[Traits]) -> float:
    over = sum(isinstance(value := traits.get(name), int) and value > bound for traits in requests)
    return over / len(requests)
