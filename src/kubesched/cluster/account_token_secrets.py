"""Tokens in Secrets of the type `kubernetes.io/service-account-token`.

The controller writes the token, the namespace and the certificates of the server into such a
Secret, and deletes it with its service account.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable
from typing import Any, Final

from kubesched.api import ApiError
from kubesched.cluster.apiserver.http.service_account_tokens import ServiceAccountTokens
from kubesched.cluster.apiserver.store.object_store import Store
from kubesched.cluster.apiserver.store.resource_collection import Collection
from kubesched.cluster.apiserver.store.stored_records import Record
from kubesched.foundation.util.clock import Clock
from kubesched.foundation.util.components import StopSwitch
from kubesched.foundation.util.logging import get_logger

__all__ = ["AccountTokenSecrets"]

log = get_logger(__name__)

Json = dict[str, Any]

_TYPE: Final = "kubernetes.io/service-account-token"
_NAME, _UID = "kubernetes.io/service-account.name", "kubernetes.io/service-account.uid"
_MOST_CHANGES: Final = 1000


class AccountTokenSecrets:
    """Fills the token Secrets of a store, and deletes those whose account is gone."""

    def __init__(
        self,
        store: Store,
        tokens: ServiceAccountTokens,
        clock: Clock,
        authority: Callable[[], bytes],
    ) -> None:
        """`authority` returns the certificates that clients need to trust the server."""
        self._store, self._tokens, self._clock, self._authority = store, tokens, clock, authority
        self._secrets = store.collection(store.catalog.by_url("", "v1", "secrets"))
        self._accounts = store.collection(store.catalog.by_url("", "v1", "serviceaccounts"))
        # The token Secrets by service account (`namespace/name`): the keys.
        self._by_account: dict[str, set[str]] = {}
        self._stop = StopSwitch()

    async def run(self) -> None:
        await self._stop.guard(self._follow_changes())

    def stop(self) -> None:
        self._stop.set()

    async def _follow_changes(self) -> None:
        positions = self._ends()
        self._sync_all()
        changed = asyncio.Event()
        while True:
            changed.clear()
            for collection in (self._secrets, self._accounts):
                collection.call_on_change(changed.set)
            try:
                if positions == self._ends():
                    await changed.wait()
            finally:
                for collection in (self._secrets, self._accounts):
                    collection.cancel_call(changed.set)
            secrets, accounts = positions
            try:
                positions = self._follow_secrets(secrets), self._follow_accounts(accounts)
            except ApiError:  # the log no longer holds all changes
                positions = self._ends()
                self._sync_all()

    def _ends(self) -> tuple[int, int]:
        return self._secrets.end, self._accounts.end

    def _sync_all(self) -> None:
        for record in list(self._secrets.objects.values()):
            self._sync(record)

    def _follow_secrets(self, position: int) -> int:
        changes = self._read(self._secrets, position)
        for kind, record in changes:
            if kind == "DELETED":
                self._forget(record)
            elif (current := self._secrets.objects.get(record.key)) is not None:
                self._sync(current)
        return position + len(changes)

    def _follow_accounts(self, position: int) -> int:
        changes = self._read(self._accounts, position)
        for kind, record in changes:
            if kind == "DELETED":
                for key in list(self._by_account.get(record.key, ())):
                    if (secret := self._secrets.objects.get(key)) is not None:
                        self._sync(secret)
        return position + len(changes)

    def _read(self, collection: Collection, position: int) -> list[tuple[str, Record]]:
        limit = min(_MOST_CHANGES, collection.end - position)
        return [(each.type, each.record) for each in collection.changes(position, limit)]

    def _sync(self, record: Record) -> None:
        """Fill or delete a Secret, if it is one for a token."""
        secret = record.data
        if (key := _account_of(secret)) is None:
            return
        self._by_account.setdefault(key, set()).add(record.key)
        metadata = secret["metadata"]
        account = self._accounts.objects.get(key)
        uid = _notes(secret).get(_UID)
        try:
            if account is None or uid not in (None, "", account.data["metadata"]["uid"]):
                self._store.delete(
                    self._secrets.resource,
                    metadata["namespace"],
                    metadata["name"],
                    self._clock.now_ns(),
                    uid=metadata["uid"],
                )
            elif (patch := self._patch(account.data, secret)) is not None:
                self._store.patch(
                    self._secrets.resource,
                    metadata["namespace"],
                    metadata["name"],
                    patch,
                    self._clock.now_ns(),
                    patch_type="merge",
                )
        except ApiError as error:
            log.warning("Could not write a token Secret", secret=record.key, error=error)

    def _patch(self, account: Json, secret: Json) -> Json | None:
        """Return the missing parts of a Secret; None if it is complete."""
        data = secret.get("data") or {}
        wanted = {}
        authority = base64.b64encode(self._authority()).decode()
        if authority and data.get("ca.crt") != authority:
            wanted["ca.crt"] = authority
        namespace = secret["metadata"]["namespace"]
        if not data.get("namespace"):
            wanted["namespace"] = base64.b64encode(namespace.encode()).decode()
        if not data.get("token"):
            token = self._tokens.secret_token(account, secret)
            wanted["token"] = base64.b64encode(token.encode()).decode()
        if not wanted:
            return None
        notes = {_NAME: account["metadata"]["name"], _UID: account["metadata"]["uid"]}
        return {"metadata": {"annotations": notes}, "data": wanted}

    def _forget(self, record: Record) -> None:
        """Remove the reference of an account to a deleted Secret."""
        if (key := _account_of(record.data)) is None:
            return
        self._by_account.get(key, set()).discard(record.key)
        account = self._accounts.objects.get(key)
        if account is None or record.key in self._secrets.objects:
            return
        name = record.data["metadata"]["name"]
        referenced = account.data.get("secrets") or ()
        left = [each for each in referenced if each.get("name") != name]
        if len(left) == len(referenced):
            return
        metadata = account.data["metadata"]
        try:
            self._store.patch(
                self._accounts.resource,
                metadata["namespace"],
                metadata["name"],
                {"secrets": left or None},
                self._clock.now_ns(),
                patch_type="merge",
            )
        except ApiError as error:
            log.warning("Could not remove a reference to a Secret", account=key, error=error)


def _notes(secret: Json) -> Json:
    return secret["metadata"].get("annotations") or {}


def _account_of(secret: Json) -> str | None:
    """Return the key of the account of a token Secret; None for other Secrets."""
    name = _notes(secret).get(_NAME)
    if secret.get("type") != _TYPE or not name:
        return None
    return f"{secret['metadata']['namespace']}/{name}"
