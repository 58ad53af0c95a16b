"""The details that `kubesched explain` shows about groups that Coscheduling rejects."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from kubesched.contrib.coscheduling.gang_causes import (
    GangIncomplete,
    GangRejected,
    GangTooLarge,
    PodGroupMissing,
)
from kubesched.contrib.coscheduling.group_spec import (
    GROUP_LABEL,
    group_key_of,
    pod_group_type,
)
from kubesched.framework import Cause, Detail, Explaining, RejectedNodes, Remedy

__all__ = ["CoschedulingExplaining"]


class CoschedulingExplaining(Explaining):
    """Explains rejections by PreFilter, which apply to all nodes."""

    def details(self, rejected: RejectedNodes, cause: Cause | None) -> Detail:
        match cause:
            case PodGroupMissing(group=group):
                return Detail(
                    sentence=f"the PodGroup {group} that its label names does not exist",
                    advice=f"create the PodGroup {group}, or remove the label {GROUP_LABEL}",
                )
            case GangIncomplete(group=group, known=known, needed=needed):
                return Detail(
                    asked=f"{needed} pods in the group",
                    available=str(known),
                    sentence=f"its group {group} has {known} of the {needed} pods it needs",
                    advice=f"create {needed - known} more pods with the label {GROUP_LABEL}",
                )
            case GangTooLarge(group=group, places=places, needed=needed) if needed is not None:
                return Detail(
                    asked=f"room for {needed} pods at once",
                    available=str(places),
                    sentence=f"its group {group} needs room for {needed} pods at once, "
                    f"and there is room for {places}",
                )
            case GangTooLarge(group=group, missing=missing):
                lacking = ", ".join(f"{amount} of {name}" for name, amount in missing)
                return Detail(
                    sentence=f"the nodes lack {lacking} of the minResources of its group {group}"
                )
            case GangRejected(group=group):
                return Detail(sentence=f"its group {group} was rejected and is backing off")
        return Detail()

    def remedies(self, rejected: RejectedNodes) -> Iterator[Remedy]:
        pod = rejected.pod
        labels = {key: text for key, text in pod.metadata.labels.items() if key != GROUP_LABEL}
        alone = replace(pod, metadata=replace(pod.metadata, labels=labels))
        yield Remedy("remove the pod from its group", 1.5, alone)
        namespace, _, name = group_key_of(pod).partition("/")
        group = rejected.objects.get(pod_group_type(), name, namespace)
        if group is None or not isinstance(least := group.spec.get("minMember"), int):
            return
        # Binary search for the largest minMember with which the scheduler places the pod.
        low, high = 0, least
        while high - low > 1:
            middle = (low + high) // 2
            smaller = replace(group, spec={**group.spec, "minMember": middle})
            if rejected.fits_after(Remedy("", 1.0, pod, changes=(smaller,))):
                low = middle
            else:
                high = middle
        if low:
            smaller = replace(group, spec={**group.spec, "minMember": low})
            yield Remedy(
                f"lower minMember of the PodGroup {name} to {low}",
                1.0,
                pod,
                changes=(smaller,),
                command=f"kubectl patch podgroups.scheduling.x-k8s.io {name} -n {namespace} "
                f'--type=merge -p \'{{"spec":{{"minMember":{low}}}}}\'',
            )
