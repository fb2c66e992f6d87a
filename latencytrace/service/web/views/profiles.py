"""`/api/v1/profiles`: asked for, listed, fetched."""

from collections.abc import Callable
from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from latencytrace.model.profile import DEFAULT_SECONDS, DEFAULT_STEPS, MAX_SECONDS, MAX_STEPS
from latencytrace.service.answers.documents import ProfileDocument, ProfilesDocument
from latencytrace.service.answers.gpu_documents import GpusDocument, GpuTimelinesDocument
from latencytrace.service.net.problems import JsonAnswer
from latencytrace.service.profiles.orders import Profile, Profiles
from latencytrace.service.web.described import ViewRouter
from latencytrace.service.web.queries import NO_PARAMETERS


class Wanted(BaseModel):
    """An order: so many steps or so long, whichever is over first."""

    model_config = ConfigDict(extra="forbid")

    service: str | None = None
    steps: Annotated[int, Field(ge=1, le=MAX_STEPS)] = DEFAULT_STEPS
    seconds: Annotated[float, Field(gt=0, le=MAX_SECONDS)] = DEFAULT_SECONDS


def profiles_router(profiles: Profiles, url_of: Callable[[str], str]) -> ViewRouter:
    """Profiles of programs that compute with torch.

    Args:
        url_of: The address of the trace of one.
    """
    router = ViewRouter(tags=["profiles"], dependencies=NO_PARAMETERS)

    def document(profile: Profile) -> ProfileDocument:
        return {**asdict(profile), "url": url_of(profile.id)}  # type: ignore[typeddict-item]  # its fields

    @router.post("/profiles", response_model=ProfileDocument, status_code=HTTPStatus.ACCEPTED)
    def ask(wanted: Wanted) -> Response:
        """Have a process take one at its next step; it learns of that when it posts spans."""
        asked = profiles.ask(wanted.service, steps=wanted.steps, seconds=wanted.seconds)
        return JsonAnswer(document(asked), HTTPStatus.ACCEPTED)

    @router.get("/profiles", response_model=ProfilesDocument)
    def listed() -> Response:
        """Known profiles, the newest first."""
        return JsonAnswer({"profiles": [document(one) for one in profiles.all()]})

    @router.get("/profiles/{profile_id}", response_model=ProfileDocument)
    def one(profile_id: str) -> Response:
        """One, and what has become of it."""
        return JsonAnswer(document(profiles.one(profile_id)))

    @router.delete("/profiles/{profile_id}", response_model=ProfileDocument)
    def cancel(profile_id: str) -> Response:
        """Cancel a profile that is under way; what is kept stays."""
        return JsonAnswer(document(profiles.cancel(profile_id)))

    @router.get("/profiles/{profile_id}/trace", response_class=Response)
    def trace(profile_id: str) -> Response:
        """A Chrome trace, gzipped: for ui.perfetto.dev or chrome://tracing."""
        named = {"content-disposition": f'attachment; filename="{profile_id}.json.gz"'}
        return Response(profiles.trace(profile_id), 200, named, "application/gzip")

    return router


def gpu_router(
    gpus: Callable[[], GpusDocument], timelines: Callable[[], GpuTimelinesDocument]
) -> ViewRouter:
    """The GPUs that agents read."""
    router = ViewRouter(tags=["gpu"], dependencies=NO_PARAMETERS)

    @router.get("/gpu", response_model=GpusDocument)
    def gpu() -> Response:
        """GPUs as they were read last, and what held the work on them up in the last hour."""
        return JsonAnswer(gpus())

    @router.get("/gpu/timeline", response_model=GpuTimelinesDocument)
    def timeline() -> Response:
        """The counters of GPUs over the last hour, beside the device time of traced work."""
        return JsonAnswer(timelines())

    return router
