"""Words that Kubernetes and well-known drivers define, which `--anonymize` does not replace.

Some decide how an object is handled, such as a driver that replaced an in-tree plugin, and must not
be replaced. The others reveal nothing about a company.
"""

from __future__ import annotations

import re
from typing import Final

from kubesched.api.kinds import KINDS
from kubesched.scheduler.config import plugin_names

__all__ = ["PUBLIC_WORDS"]

_TEXTS: Final = """
default default-scheduler kube-system kube-public kube-node-lease kube-root-ca kubesched
kubernetes.io k8s.io x-k8s.io apps/v1 batch/v1 v1 v1alpha1 v1alpha2 v1beta1 v1beta2 v2
kubescheduler.config.k8s.io/v1 system-cluster-critical system-node-critical
node.kubernetes.io/not-ready node.kubernetes.io/unreachable node.kubernetes.io/unschedulable
node.kubernetes.io/memory-pressure node.kubernetes.io/disk-pressure node.kubernetes.io/pid-pressure
node.kubernetes.io/network-unavailable node.kubernetes.io/out-of-service
node.cloudprovider.kubernetes.io/uninitialized node.cloudprovider.kubernetes.io/shutdown
node-role.kubernetes.io/control-plane node-role.kubernetes.io/master node-role.kubernetes.io/worker
node.kubernetes.io/instance-type node.kubernetes.io/exclude-from-external-load-balancers
kubernetes.io/hostname kubernetes.io/os kubernetes.io/arch beta.kubernetes.io/os
beta.kubernetes.io/arch beta.kubernetes.io/instance-type linux windows amd64 arm64 arm s390x ppc64le
topology.kubernetes.io/zone topology.kubernetes.io/region topology.ebs.csi.aws.com/zone
topology.gke.io/zone topology.cinder.csi.openstack.org/zone topology.disk.csi.azure.com/zone
failure-domain.beta.kubernetes.io/zone failure-domain.beta.kubernetes.io/region
app.kubernetes.io/name app.kubernetes.io/instance app.kubernetes.io/component
app.kubernetes.io/part-of app.kubernetes.io/version app.kubernetes.io/managed-by
kubernetes.io/metadata.name k8s-app pod-template-hash controller-revision-hash
pod-template-generation statefulset.kubernetes.io/pod-name apps.kubernetes.io/pod-index
batch.kubernetes.io/job-name batch.kubernetes.io/controller-uid job-name controller-uid
batch.kubernetes.io/job-tracking batch.kubernetes.io/job-completion-index
batch.kubernetes.io/job-index-failure-count batch.kubernetes.io/job-index-ignored-failure-count
batch.kubernetes.io/cronjob-scheduled-timestamp controller.kubernetes.io/pod-deletion-cost
controller.kubernetes.io/hash kubernetes.io/config.mirror
deployment.kubernetes.io/desired-replicas deployment.kubernetes.io/max-replicas
deployment.kubernetes.io/revision
kubesched.io/devices kubesched.io/exit-code kubesched.io/fail-after kubesched.io/image-pull
kubesched.io/provision kubesched.io/provision-delay kubesched.io/ready-delay
kubesched.io/run-duration kubesched.io/start-delay kubesched.io/stop-delay kubesched.io/stopped
kubesched.io/workload kubesched.io/node-group kubesched.io/arrival kubesched.io/simulated
pv.kubernetes.io/bind-completed pv.kubernetes.io/bound-by-controller
pv.kubernetes.io/provisioned-by resource.kubernetes.io/extended-resource-claim
resource.kubernetes.io/pod-claim-name resource.kubernetes.io/pcieRoot
storage.alpha.kubernetes.io/migrated-plugins storageclass.kubernetes.io/is-default-class
volume.beta.kubernetes.io/storage-class volume.beta.kubernetes.io/storage-provisioner
volume.kubernetes.io/selected-node volume.kubernetes.io/storage-provisioner
kubernetes.io/pvc-protection kubernetes.io/pv-protection resource.kubernetes.io/delete-protection
scheduling.k8s.io/podgroup-protection foregroundDeletion orphan external-attacher
kubernetes.io/aws-ebs kubernetes.io/gce-pd kubernetes.io/cinder kubernetes.io/azure-disk
kubernetes.io/azure-file kubernetes.io/vsphere-volume kubernetes.io/portworx-volume
kubernetes.io/rbd kubernetes.io/no-provisioner
ebs.csi.aws.com pd.csi.storage.gke.io cinder.csi.openstack.org disk.csi.azure.com
file.csi.azure.com csi.vsphere.vmware.com pxd.portworx.com rbd.csi.ceph.com
aws vol projects zones regions disks subscriptions resourceGroups providers Microsoft.Compute
UNSPECIFIED
cpu memory storage pods ephemeral-storage hugepages 2Mi 1Gi 32Mi 64Ki 16Gi requests limits count
attachable-volumes storageclass.storage.k8s.io nvidia.com/gpu amd.com/gpu intel.com
alibabacloud.com/gpu-milli alibabacloud.com/gpu-count deviceclass resource.kubernetes.io
services secrets configmaps persistentvolumeclaims replicationcontrollers resourcequotas
loadbalancers nodeports resourceclaims jobs.batch cronjobs.batch deployments.apps
replicasets.apps statefulsets.apps daemonsets.apps
BestEffort NotBestEffort Terminating NotTerminating PriorityClass CrossNamespacePodAffinity
VolumeAttributesClass Container Pod PersistentVolumeClaim
In NotIn Exists DoesNotExist Gt Lt Equal metadata.name true false yes no unknown True False Unknown
NoSchedule PreferNoSchedule NoExecute
Active Terminating Pending Running Succeeded Failed Bound Available Released Lost
Never PreemptLowerPriority Always OnFailure IfNotPresent
Retain Delete Recycle Immediate WaitForFirstConsumer Filesystem Block
ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod Persistent Ephemeral
DoNotSchedule ScheduleAnyway Honor Ignore TCP UDP SCTP
ExactCount All Allow Forbid Replace NonIndexed Indexed TerminatingOrFailed OrderedReady Parallel
IfHealthyBudget AlwaysAllow ClusterIP NodePort LoadBalancer ExternalName
Restart RestartAllContainers
Guaranteed Burstable Deferred Infeasible Proposed InProgress Localhost
Ready MemoryPressure DiskPressure PIDPressure NetworkUnavailable PodScheduled Initialized
ContainersReady PodReadyToStartContainers DisruptionTarget PodResizePending PodResizeInProgress
Complete Suspended FailureTarget SuccessCriteriaMet DisruptionAllowed Progressing ReplicaFailure
KubeletReady KubeletNotReady KubeletHasSufficientMemory KubeletHasNoDiskPressure
KubeletHasSufficientPID NodeStatusUnknown NodeStatusNeverUpdated RouteCreated
Unschedulable SchedulingGated SchedulerError Scheduled Evicted Preempting PreemptionByScheduler
DeletionByTaintManager EvictionByEvictionAPI TerminationByKubelet Completed Error OOMKilled
ContainerCreating PodInitializing CrashLoopBackOff ImagePullBackOff ErrImagePull
ContainersNotReady ContainersNotInitialized PodCompleted PodFailed SufficientPods
InsufficientPods ContainerCannotRun NodeLost Shutdown Terminated UnexpectedAdmissionError
NewReplicaSetAvailable MinimumReplicasAvailable BackoffLimitExceeded DeadlineExceeded
latest sha256 docker.io/library registry.k8s.io/pause pause
MON TUE WED THU FRI SAT SUN JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC hourly daily midnight
weekly monthly yearly annually
http https unschedulable active backoff gated error flight in
"""
# Names in expressions about devices.
_CEL: Final = """
device driver attributes capacity allowMultipleAllocations cel bind has size in true false null r b
int uint double string bytes bool type dyn duration timestamp list map exists exists_one all filter
matches contains startsWith endsWith find findAll isSorted sum min max indexOf lastIndexOf
charAt lowerAscii upperAscii replace split join substring trim reverse quote format
quantity isQuantity isInteger asInteger asApproximateFloat sign add sub isGreaterThan isLessThan
compareTo semver isSemver major minor patch orValue or value hasValue optional none of
ofNonZeroValue optMap optFlatMap transformList transformMap transformMapEntry includes
existsOne
"""


def _words() -> frozenset[str]:
    found = set(re.findall(r"[^\W_]+", f"{_TEXTS}\n{_CEL}"))
    for kind in KINDS:
        found |= {kind.kind, *re.findall(r"[^\W_]+", f"{kind.api_version}/{kind.plural}")}
    for value in vars(plugin_names).values():
        if isinstance(value, str) and value.isidentifier():
            found.add(value)
    return frozenset(found)


PUBLIC_WORDS: Final = _words()
