"""How fast requests would be if one of their stages were faster."""

from collections.abc import Iterator, Mapping
from functools import cache, partial
from typing import Annotated, Final, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from latencytrace.analysis.whatif import Change
from latencytrace.errors import QuestionError
from latencytrace.model import Stage
from latencytrace.model.texts.units import figure, shares, target
from latencytrace.service.answers import requests as breakdowns
from latencytrace.service.answers import whatif as answers
from latencytrace.service.answers.compare_documents import ForecastDocument, WhatifDocument
from latencytrace.service.answers.documents import BreakdownDocument
from latencytrace.service.answers.sentences.whatif import changed, notes, sentence
from latencytrace.service.web.pages.cohort_bar import Asked, read
from latencytrace.service.web.pages.exports import Export
from latencytrace.service.web.pages.parts import Parts
from latencytrace.service.web.pages.rendering import Address

WHOLE: Final = 100.0  # percent
HALF: Final = 50.0
CHANGES: Final = {"faster": "% faster", "at_most_ms": "ms at most"}


class Wish(BaseModel):
    """The supposition of the form: a stage, and how much of what."""

    stage: str
    amount: Annotated[float, Field(ge=0, le=1e9)] | None = None
    change: Literal["faster", "at_most_ms"] = "faster"

    def parameters(self) -> Mapping[str, str]:
        """Its name in the API.

        Raises:
            QuestionError: There is no such change.
        """
        if self.change == "at_most_ms":
            if self.amount is None:
                raise QuestionError("amount: say how many milliseconds a call may take at most")
            return {"stage": self.stage, "at_most_ms": f"{self.amount:g}"}
        percent = HALF if self.amount is None else self.amount
        if percent > WHOLE:
            raise QuestionError(
                f"amount: a stage can be {target(1)} faster at most, not {figure(percent)} %"
            )
        return {"stage": self.stage, "faster": f"{percent / WHOLE:g}"}


def whatif_pages(parts: Parts) -> APIRouter:
    """Answer at `/whatif`."""

    def context(question: Asked) -> Mapping[str, object]:
        written = question.parameters
        stage = written.get("stage")

        of = parts.service.store, question.cohort
        breakdown = cache(partial(breakdowns.breakdown, *of))
        parameters = cache(lambda: read(Wish, written).parameters())
        forecast = cache(lambda: answers.whatif(*of, change(parameters())))

        def export() -> Address | None:
            try:
                return question.link("/api/v1/whatif", **parameters())
            except QuestionError:
                return None

        return {
            "check": stage and (lambda: change(parameters())),
            "files": (
                [Export("forecast.csv", lambda: forecast_rows(forecast()))] if export() else []
            ),
            "stage": stage,
            "stages": list(dict.fromkeys([*map(str, Stage), *filter(None, [stage])])),
            "amount": written.get("amount", f"{HALF:g}"),
            "change": written.get("change"),
            "changes": CHANGES,
            "breakdown": breakdown,
            "whatif": forecast,
            "sentence": lambda document: sentence(document, premise(parameters())),
            "changed": changed,
            "notes": notes,
            "offers": lambda: list(offers(question, breakdown())),
            "scale": scale,
            "export": export,
        }

    return parts.cohort_pages(
        "/whatif", "whatif.html", "What-if", context, tuple(Wish.model_fields)
    )


def change(parameters: Mapping[str, str]) -> Change:
    """Read what shall change.

    Raises:
        QuestionError: There is no such stage.
    """
    shares = (float(parameters[name]) if name in parameters else None for name in CHANGES)
    return answers.change_of(parameters["stage"], *shares)


def forecast_rows(document: WhatifDocument) -> list[Mapping[str, object]]:
    """A row for each quantile."""
    pairs: Mapping[str, object] = document["duration_ns"] or {}
    return [{"quantile": level, "duration_ns": pair} for level, pair in pairs.items()]


def premise(parameters: Mapping[str, str]) -> str:
    """The supposition, after an `If`."""
    stage = parameters["stage"]
    if "at_most_ms" in parameters:
        return f"no call of {stage} took longer than {parameters['at_most_ms']} ms"
    return f"{stage} were {target(float(parameters['faster']))} faster"


def offers(
    question: Asked, document: BreakdownDocument
) -> Iterator[tuple[str, int, str, Address]]:
    """The stages of a cohort: mean, printed share, and the forecast of half its time."""
    printed = shares([row["mean_ns"] for row in document["stages"]])
    for row, share in zip(document["stages"], printed, strict=True):
        address = question.link("/whatif", stage=row["stage"], amount=f"{HALF:g}", change="faster")
        yield row["stage"], row["mean_ns"], share, address


def scale(document: WhatifDocument) -> float:
    """Return the duration that the longest bar stands for."""
    pairs: list[ForecastDocument] = list((document["duration_ns"] or {}).values())  # type: ignore[arg-type] # of these
    return float(max((max(pair["now"], pair["then"]) for pair in pairs), default=0) or 1)
