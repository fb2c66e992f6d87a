"""The releases within the time of a page, each with the comparison of before and after."""

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise
from urllib.parse import urlencode

from latencytrace.service.store import Store
from latencytrace.service.web.drawing.releases import Release
from latencytrace.service.web.pages.cohort_bar import Asked, Written, next_second, whole_second

MOST_RELEASES = 20  # the latest
_COLUMNS = 60  # of the pictures: what is there in the first of them began before


def releases(store: Store, question: Asked) -> list[Release]:
    """Versions that began within the time of a page, in order of time."""
    by_service: dict[str, dict[str, int]] = defaultdict(dict)
    for (service, version), at_ns in store.versions(question.cohort, inner=True).items():
        by_service[service][version] = at_ns
    found = [
        one
        for service, began in by_service.items()
        for one in releases_of(question, question.times_ns(), began, {"service": service})
    ]
    return sorted(found, key=lambda one: one.at_ns)[-MOST_RELEASES:]


def releases_of(
    asked: Written,
    times_ns: tuple[int, int],
    began: Mapping[str, int],
    of: Mapping[str, str],
    around_ns: int | None = None,
) -> list[Release]:
    """The releases of one service, in order of time.

    Args:
        asked: What the page was asked for; links keep it.
        times_ns: The time of the picture.
        began: The first request of each version in this time.
        of: The service, and further filters of what is compared.
        around_ns: How long before and after is compared; None: the time of the page.
    """
    since_ns, until_ns = times_ns
    in_order = sorted(began, key=lambda version: (began[version], version))
    return [
        Release(
            service=of["service"],
            version=version,
            before=before,
            at_ns=began[version],
            address=asked.link(
                "/compare",
                version=None,
                a=urlencode({"version": before}),
                b=urlencode({"version": version}),
                **of,
                **({} if around_ns is None else _around(began[version], around_ns)),
            ),
        )
        for before, version in pairwise(in_order)
        if began[version] > since_ns + (until_ns - since_ns) // _COLUMNS
    ]


def _around(at_ns: int, length_ns: int) -> dict[str, str]:
    return {"since": whole_second(at_ns - length_ns), "until": next_second(at_ns + length_ns)}
