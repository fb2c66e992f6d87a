"""The tail's cause, or the reason why none is named."""

from latencytrace.service.answers.tail_documents import TailDocument

NOTHING = (
    "Nothing sets the tail apart: no attribute, and no stage that takes longer than its usual "
    "spread explains."
)
MIXED = "No single cause explains the tail: what it has more often stands below."


def sentence(document: TailDocument) -> str:
    """What makes the slowest requests slow, in one sentence."""
    if document["needed_requests"] is not None:
        return (
            f"Not enough requests to name a cause: {document['requests']:,} of at least "
            f"{document['needed_requests']:,}."
        )
    cause = document["cause"]
    if cause:
        return cause["sentence"]
    return MIXED if document["attributes"] else NOTHING
