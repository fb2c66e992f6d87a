"""FastAPI's own work around an endpoint, under a real server."""

import httpx
from fastapi import FastAPI
from pydantic import BaseModel

from latencytrace.model import Stage
from tests.support.agent.receiving import TracedProgram
from tests.support.servers.serving import serving


class Question(BaseModel):
    """What the endpoint wants."""

    text: str


def application() -> FastAPI:
    app = FastAPI()

    @app.post("/ask")
    def ask(question: Question) -> dict[str, int]:
        return {"length": len(question.text)}

    return app


def test_validating_and_serializing_have_spans_below_the_request(agent: TracedProgram) -> None:
    with serving(application()) as address:
        answer = httpx.post(f"{address}/ask", json={"text": "why?"}, trust_env=False)

    assert answer.json() == {"length": 4}
    request = agent.one("POST /ask")
    validated, serialized = agent.one("request_body_to_args"), agent.one("serialize_response")
    assert (validated.stage, serialized.stage) == (Stage.PREPROCESS, Stage.POSTPROCESS)
    assert validated.parent_id == serialized.parent_id == request.span_id
    assert request.covers(validated)
    assert request.covers(serialized)


def test_a_body_that_is_not_valid_is_still_the_programs_422(agent: TracedProgram) -> None:
    with serving(application()) as address:
        answer = httpx.post(f"{address}/ask", json={"text": 4}, trust_env=False)

    assert answer.status_code == 422
    assert agent.one("request_body_to_args").stage == Stage.PREPROCESS
