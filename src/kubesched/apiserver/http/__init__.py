"""The embedded cluster over HTTP, for clients that speak to API servers.

`ApiService` answers requests as values; `ApiServer` puts it on a socket.
"""

from __future__ import annotations

from kubesched.apiserver.http.limits import Limits
from kubesched.apiserver.http.request_and_answer import Answer, Request, Stream
from kubesched.apiserver.http.router import ApiService
from kubesched.apiserver.http.server import ApiServer
from kubesched.apiserver.http.users import ADMIN, VIEWERS, User, Users

__all__ = [
    "ADMIN",
    "VIEWERS",
    "Answer",
    "ApiServer",
    "ApiService",
    "Limits",
    "Request",
    "Stream",
    "User",
    "Users",
]
