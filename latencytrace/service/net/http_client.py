"""The HTTP client of the command line, of sinks and of the engine scraper."""

import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from latencytrace.model.texts.secrets import parted, why_no_address
from latencytrace.plugins import installed_version

# It would load its own command line too, a third of what its import takes.
sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type] # an import of it fails then
import httpx  # noqa: E402 - now

_AGENT = f"latencytrace/{installed_version('latencytrace')}"


@contextmanager
def exchange(
    method: str,
    url: str,
    timeout_s: float,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
    redirects: bool = False,
    proxy: str | None = None,
) -> Iterator[httpx.Response]:
    """Send a request, past the proxies of the environment; the body is left to be read.

    A user and password in the address are sent as a header, unless one has them already. The time
    is that of connecting, and of each reading and writing. Redirects are answers, unless they
    are to be followed.

    Raises:
        OSError: There is no answer, or the rest of it does not come; also inside the block.
    """
    try:
        bare, of_user = parted(url)
    except ValueError as error:
        raise OSError(why_no_address(url, error)) from None
    sent = {"user-agent": _AGENT, "accept-encoding": "identity", **of_user}
    sent |= {name.lower(): value for name, value in (headers or {}).items()}
    encoded = httpx.Headers(sent, encoding="latin-1")
    try:
        with (
            httpx.Client(
                verify=_trusted(),
                timeout=timeout_s,
                follow_redirects=redirects,
                proxy=proxy,
                trust_env=False,
            ) as client,
            client.stream(method, bare, content=content, headers=encoded) as response,
        ):
            yield response
    except (httpx.LocalProtocolError, httpx.InvalidURL) as error:  # they may quote a secret
        raise OSError(f"no HTTP answer: {type(error).__name__}") from None
    except httpx.HTTPError as error:
        raise OSError(str(error) or type(error).__name__) from None


def ask(
    method: str,
    url: str,
    timeout_s: float,
    *,
    content: bytes | None = None,
    headers: Mapping[str, str] | None = None,
) -> httpx.Response:
    """Send a request, follow redirects and read the whole answer, whatever its status.

    Raises:
        OSError: There is none.
    """
    with exchange(
        method, url, timeout_s, content=content, headers=headers, redirects=True
    ) as response:
        response.read()
        return response


@cache
def _trusted() -> ssl.SSLContext:
    """Load the authorities of this machine, which takes longer than a request on it."""
    return ssl.create_default_context()
