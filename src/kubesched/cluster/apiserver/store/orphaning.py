"""Deletion that leaves behind what an object owned."""

from __future__ import annotations

from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["orphan_dependents"]


def orphan_dependents(store: Store, uid: str, now_ns: int) -> None:
    """Take an owner out of the references of everything that names it."""
    for resource in list(store.catalog.all()):
        if resource.to_stored is not None:
            continue  # another face of objects that are seen to anyway
        for record in list(store.collection(resource).objects.values()):
            metadata = record.data["metadata"]
            references = metadata.get("ownerReferences", ())
            kept = [each for each in references if each.get("uid") != uid]
            if len(kept) < len(references):
                patch = {"metadata": {"ownerReferences": kept or None}}
                namespace = metadata.get("namespace")
                name = metadata["name"]
                store.patch(resource, namespace, name, patch, now_ns, patch_type="merge")
