"""A new link to the page of a named cluster, for the owner of the cluster's files."""

from __future__ import annotations

import msgspec

from kubesched.cli.cluster_address import ClusterAddress
from kubesched.cli.cluster_page import LINK_PATH, PageLink
from kubesched.errors import KubeschedError
from kubesched.foundation.client.http_transport import HttpTransport
from kubesched.foundation.client.transport import OutgoingRequest
from kubesched.foundation.util.clock import SECOND, RealClock
from kubesched.scheduler.process.api_clients import user_agent

__all__ = ["new_page_link"]

_WITHIN_NS = 3 * SECOND


async def new_page_link(name: str) -> str:
    """Request a sign-in link for the page, with the administrator's credentials.

    Raises:
        KubeschedError: the cluster does not run, or it does not issue a link.
    """
    connection = ClusterAddress(name=name).connection(RealClock(), f"{user_agent()}/dashboard")
    transport = HttpTransport(connection)
    try:
        request = OutgoingRequest("POST", LINK_PATH, timeout_ns=_WITHIN_NS)
        response = await transport.send(request)
    finally:
        await transport.close()
    if response.status != 200:
        raise KubeschedError(
            f"cluster {name!r} does not issue a link to its page: status {response.status}; an "
            f"older version may serve it: kubesched down {name} ends it"
        )
    return msgspec.json.decode(response.body, type=PageLink).dashboard
