"""`GET /api/v1/backup`."""

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated, Any

from fastapi import HTTPException, Query
from fastapi.responses import Response
from pydantic import Field

from latencytrace.errors import TooLargeError
from latencytrace.service.sql.copying import rows_in
from latencytrace.service.store import Piece, Store, Table
from latencytrace.service.web.described import ViewRouter
from latencytrace.service.web.queries import NO_PARAMETERS, KnownQuery

_Seconds = Annotated[int, Field(ge=0, le=2**32)]  # since the Unix epoch, as columns hold them


class PieceQuery(KnownQuery):
    """A piece, as `GET /backup` lists it."""

    table: Table
    since_s: _Seconds
    until_s: _Seconds
    first_s: _Seconds
    last_s: _Seconds
    share: int = Field(default=0, ge=0)
    shares: int = Field(default=1, ge=1)
    rows: int = 0


def backup_router(store: Store) -> ViewRouter:
    """Everything that a store has, in pieces, for `latencytrace backup`."""
    router = ViewRouter(tags=["backup"])

    @router.get("/backup", dependencies=NO_PARAMETERS)
    def backup() -> dict[str, Any]:
        """The pieces, in the order in which they are to be copied."""
        return {"pieces": [{**asdict(piece), "day": piece.day} for piece in store.pieces()]}

    @router.get("/backup/rows", response_class=Response)
    def rows(asked: Annotated[PieceQuery, Query()]) -> Response:
        """The rows of a piece: twice eight bytes, rows and size; then the rows, compressed."""
        import pyarrow as pa  # noqa: PLC0415 - heavy, and rarely asked for

        try:
            found = store.rows_of(Piece(**asked.model_dump()))
        except TooLargeError as error:
            raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, str(error)) from None
        head = rows_in(found).to_bytes(8, "little") + len(found).to_bytes(8, "little")
        packed = pa.compress(found, codec="zstd", asbytes=True) if found else b""
        return Response(head + packed, media_type="application/octet-stream")

    return router
