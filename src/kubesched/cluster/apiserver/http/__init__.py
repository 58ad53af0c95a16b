"""The embedded cluster over HTTP, for clients that speak to API servers.

`ApiService` answers requests as values; `ApiServer` puts it on a socket.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.http.limits import Limits
from kubesched.cluster.apiserver.http.request_and_answer import Answer, Request, Stream
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.server import ApiServer
from kubesched.cluster.apiserver.http.users import ADMIN, VIEWERS, Requester, Users

__all__ = [
    "ADMIN",
    "VIEWERS",
    "Answer",
    "ApiServer",
    "ApiService",
    "Limits",
    "Request",
    "Requester",
    "Stream",
    "Users",
]
