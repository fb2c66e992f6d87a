"""The route of a request, as far as it is known."""

from latencytrace.agent.timing.hook import HookAttributes
from latencytrace.agent.timing.recorder import Timing
from latencytrace.agent.toolkit.http.path_shapes import SHAPES
from latencytrace.model import semconv


class RoutedRequest:
    """Names the span of a request after its route."""

    __slots__ = ()
    name: str
    timing: Timing
    _noted: HookAttributes

    @property
    def title(self) -> str:
        """Return what its span is called in the end, as far as that is known: `GET /chat`."""
        noted = self._noted.get(semconv.HTTP_ROUTE)
        route = noted if isinstance(noted, str) else self.route()
        return self.name if route is None else f"{self.name} {route}"

    def route(self) -> str | None:
        """Return the template of its route; None: none matched, or that is not known yet."""
        return None

    def prefix(self, root_path: str = "") -> str:
        """Return the template of the mount that an application within is called for.

        Args:
            root_path: The prefix of its paths, as it was asked for.
        """
        return SHAPES.of(root_path)

    def is_explained(self) -> bool:
        """Tell whether a framework knows its route, or that it has none."""
        return True

    def note_route(self, route: str | None) -> None:
        if route is not None:
            self._noted[semconv.HTTP_ROUTE] = route
            self.timing.span.update_name(f"{self.name} {route}")

    def settle_route(self) -> None:
        """Note its route at its end, unless an application within has found one."""
        if semconv.HTTP_ROUTE not in self._noted:
            self.note_route(self.route() or (None if self.is_explained() else self._shape()))

    def _shape(self) -> str | None:
        """Return the template of its path by the look of it; None: its look does not say."""
        path = (getattr(self.timing.span, "attributes", None) or {}).get(semconv.URL_PATH)
        status = self._noted.get(semconv.HTTP_RESPONSE_STATUS_CODE)
        if isinstance(path, str) and isinstance(status, int):
            return SHAPES.route(path, status)
        return None
