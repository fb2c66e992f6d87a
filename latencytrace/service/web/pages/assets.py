"""Style sheets, scripts and the icon, each at an address that names what is in it."""

from collections.abc import Mapping
from hashlib import sha256
from importlib.resources import files
from typing import Final

from fastapi import APIRouter
from fastapi.responses import Response

from latencytrace.errors import NotFoundError
from latencytrace.model import Stage
from latencytrace.model.stage_colours import STAGE_COLOURS, text_on

FOLDER: Final = "/static"
_TYPES: Final = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
_STAGES: Final = "stages.css"


def stage_styles() -> str:
    """The style sheet of the colours of stages, from the one table of them."""
    lines = [
        f".s-{stage}{{--stage:var(--s-{stage});--on-stage:var(--t-{stage})}}" for stage in Stage
    ]
    light = "".join(
        f"--s-{stage}:{colour.light};--t-{stage}:{text_on(colour.light)};"
        for stage, colour in STAGE_COLOURS.items()
    )
    dark = "".join(
        f"--s-{stage}:{colour.dark};--t-{stage}:{text_on(colour.dark)};"
        for stage, colour in STAGE_COLOURS.items()
    )
    return (
        f":root{{{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}\n"
        + "\n".join(lines)
        + "\n"
    )


class Assets:
    """The files that pages ask for; nothing else is served from here."""

    def __init__(self) -> None:
        found = (
            file for file in files(__package__).joinpath("static").iterdir() if file.is_file()
        )
        self._bodies: Mapping[str, bytes] = {
            **{file.name: file.read_bytes() for file in found},
            _STAGES: stage_styles().encode(),
        }
        whole = b"".join(name.encode() + body for name, body in sorted(self._bodies.items()))
        self._version = sha256(whole).hexdigest()[:12]

    def address(self, name: str) -> str:
        """Where a file is; another version of it lies elsewhere."""
        if name not in self._bodies:
            raise NotFoundError(f"there is no file {name!r} among the pages' own")
        return f"{FOLDER}/{self._version}/{name}"

    def router(self) -> APIRouter:
        """Answer for them."""
        router = APIRouter(include_in_schema=False)

        @router.get(FOLDER + "/{version}/{name}")
        async def asset(version: str, name: str) -> Response:
            body = self._bodies.get(name)
            if body is None:
                raise NotFoundError("no page asks for this file: load the page again")
            lasting = "max-age=31536000, immutable" if version == self._version else "no-store"
            headers = {
                "cache-control": lasting,
                "x-content-type-options": "nosniff",
                "cross-origin-resource-policy": "same-origin",
            }
            return Response(body, 200, headers, _TYPES[name.rpartition(".")[2]])

        return router
