"""The embedded API server over HTTP, for clients of the Kubernetes API.

`ApiService` handles requests as values; `ApiServer` serves it on a socket.
"""

from __future__ import annotations

from kubesched.cluster.apiserver.http.api_limits import ApiLimits
from kubesched.cluster.apiserver.http.api_server import ApiServer
from kubesched.cluster.apiserver.http.router import ApiService
from kubesched.cluster.apiserver.http.served_watch import ServedWatch
from kubesched.cluster.apiserver.http.users import ADMIN, VIEWERS, Requester, Users

__all__ = [
    "ADMIN",
    "VIEWERS",
    "ApiLimits",
    "ApiServer",
    "ApiService",
    "Requester",
    "ServedWatch",
    "Users",
]
