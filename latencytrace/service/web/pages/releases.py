"""The releases within the time of a page, each with the comparison of before and after."""

from collections import defaultdict
from itertools import pairwise
from urllib.parse import urlencode

from latencytrace.service.store import Store
from latencytrace.service.web.drawing.releases import Release
from latencytrace.service.web.pages.cohort_bar import Asked

MOST_RELEASES = 20  # the latest
_COLUMNS = 60  # of the pictures: what is there in the first of them began before


def releases(store: Store, question: Asked) -> list[Release]:
    """Versions that began within the time of a page, in order of time."""
    since_ns, until_ns = question.cohort.since_ns or 0, question.cohort.until_ns or question.now_ns
    by_service: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for (service, version), at_ns in store.versions(question.cohort).items():
        by_service[service].append((at_ns, version))
    found = [
        Release(
            service=service,
            version=version,
            before=before,
            at_ns=at_ns,
            address=question.link(
                "/compare",
                service=service,
                version=None,
                a=urlencode({"version": before}),
                b=urlencode({"version": version}),
            ),
        )
        for service, versions in by_service.items()
        for (_, before), (at_ns, version) in pairwise(sorted(versions))
        if at_ns > since_ns + (until_ns - since_ns) // _COLUMNS
    ]
    return sorted(found, key=lambda one: one.at_ns)[-MOST_RELEASES:]
