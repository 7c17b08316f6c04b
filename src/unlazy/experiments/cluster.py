# SPDX-License-Identifier: Apache-2.0
"""The connection to the scheduler of a Dask cluster."""

import contextlib
import http.client
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

from unlazy.core.errors import ArgumentsError, UnlazyError
from unlazy.experiments.places import DaskPlaces

_FIRST, _AGAIN = 10, 60  # seconds until a scheduler must be reached, at first and once it was
_DASHBOARD = 2  # seconds that it has to answer


class Cluster:
    """The scheduler at an address; `note` is told of its dashboard."""

    def __init__(self, address: str, note: Callable[[str], None]) -> None:
        check_dask()
        self.address, self.note, self.patience = address, note, _FIRST

    @contextlib.contextmanager
    def connected(self) -> Iterator[DaskPlaces]:
        """A connection, with the places that the scheduler's workers have."""
        with _client(self.address, self.patience) as client:
            if self.patience == _FIRST and (link := _dashboard(client)):
                self.note(f"dashboard: {link}")
            self.patience = _AGAIN
            yield DaskPlaces(client)


def check_dask() -> None:
    """Raise unless Dask is installed."""
    try:
        import distributed  # noqa: F401  # is it there?
    except ImportError as error:
        raise UnlazyError(
            "a cluster needs Dask, which is not installed: pip install 'unlazy[dask]'."
        ) from error


@contextlib.contextmanager
def _client(address: str, patience: int) -> Iterator[Any]:
    """A connection to the scheduler."""
    from distributed import Client

    try:
        _check_certificates(address)
        client = Client(address, timeout=patience, set_as_default=False)
    except OSError as error:
        raise UnlazyError(
            f"the scheduler at {address} cannot be reached: {error}. Finished cells are stored."
        ) from error
    try:
        yield client
    finally:
        with contextlib.suppress(Exception):  # nothing is lost when it cannot say goodbye
            client.close(timeout=2)


def _check_certificates(address: str) -> None:
    """Raise if the scheduler asks for TLS, and Dask knows of no certificates."""
    from distributed import Security

    if not address.startswith("tls:"):
        return
    if Security().get_connection_args("client")["ssl_context"] is None:
        raise ArgumentsError(
            "`scheduler` must be an address without TLS where Dask's settings name no "
            f"certificates, got scheduler={address!r}. Set ca-file, client.cert and client.key of "
            "distributed.comm.tls."
        )


def _dashboard(client: Any) -> str | None:
    """The address of the scheduler's dashboard, if it answers."""
    # A scheduler without a dashboard names an address too. KeyError: it names none, or Dask's
    # settings for the address ask for a variable that is not set.
    with contextlib.suppress(KeyError, ValueError, OSError, http.client.HTTPException):
        link = client.dashboard_link
        with urllib.request.urlopen(link, timeout=_DASHBOARD):
            return link
    return None
