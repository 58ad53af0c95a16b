"""Orphaning: deletion of an owner that keeps its dependents."""

from __future__ import annotations

from kubesched.cluster.apiserver.store.object_store import Store

__all__ = ["orphan_dependents"]


def orphan_dependents(store: Store, uid: str, now_ns: int) -> None:
    """Remove the references to an owner from all of its dependents."""
    for resource in list(store.catalog.all()):
        if resource.to_stored is not None:
            continue  # another API version of a resource that this loop visits
        for record in list(store.collection(resource).objects.values()):
            metadata = record.data["metadata"]
            references = metadata.get("ownerReferences", ())
            kept = [each for each in references if each.get("uid") != uid]
            if len(kept) < len(references):
                patch = {"metadata": {"ownerReferences": kept or None}}
                namespace = metadata.get("namespace")
                name = metadata["name"]
                store.patch(resource, namespace, name, patch, now_ns, patch_type="merge")
