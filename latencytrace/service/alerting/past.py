"""Keeps alerts that are over, with what was known of them at their end."""

from collections.abc import Callable, Iterable

from latencytrace.model import Alert
from latencytrace.service.alerting.document import alert_document
from latencytrace.service.alerting.links import AlertLinks
from latencytrace.service.objectives.memory import ObjectiveMemory

Changed = Callable[[Iterable[Alert]], None]


def keeping_past(memory: ObjectiveMemory, links: AlertLinks, changed: Changed) -> Changed:
    """Return what takes alerts that began or ended: it keeps the ended ones and hands all on.

    Args:
        memory: Where they are kept.
        links: What their documents link to.
        changed: Takes them all next.
    """

    def noted(alerts: Iterable[Alert]) -> None:
        every = tuple(alerts)
        over = [alert_document(one, links) for one in every if one.ended_ns is not None]
        if over:
            memory.keep_past(over)
        changed(every)

    return noted
