"""Requests for resources, as the handlers of the verbs receive them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kubesched.cluster.apiserver.http.media_types import accepted_form
from kubesched.cluster.apiserver.http.request_paths import RequestTarget
from kubesched.cluster.apiserver.http.response_rendering import Rendering
from kubesched.cluster.apiserver.http.users import Requester
from kubesched.cluster.apiserver.rules.errors import api_errors
from kubesched.cluster.apiserver.rules.resources.served_resources import Resource
from kubesched.foundation.http.http_messages import Request
from kubesched.foundation.util.go_format import quote

__all__ = ["SCALE", "SUCCESS", "ResourceRequest"]

Json = dict[str, Any]

# What the rows of a table may contain.
_INCLUDED = ("None", "Metadata", "Object", "")
SCALE = "scale"
SUCCESS: Json = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


class ResourceRequest(NamedTuple):
    """A request with its resource and its user."""

    http: Request
    target: RequestTarget
    resource: Resource
    requester: Requester

    @property
    def written_part(self) -> str:
        """The part of the stored object that the request writes; a scale is in the object."""
        return "" if self.target.subresource == SCALE else self.target.subresource

    def rendering(self, now_ns: Callable[[], int]) -> Rendering:
        """Return how this request wants the objects of the response. Raises ApiError 400, 406."""
        form = accepted_form(self.http.headers.get("accept"))
        included = self.http.query.get("includeObject", "")
        if form.shape == "table" and included not in _INCLUDED:
            listed = ", ".join(quote(each) for each in _INCLUDED)
            raise api_errors.bad_request(
                "Unable to convert to Table as requested: includeObject: Unsupported value: "
                f"{quote(included)}: supported values: {listed}"
            )
        return Rendering(self.resource, form, now_ns, included=included)
