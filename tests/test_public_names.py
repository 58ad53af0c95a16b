"""The public names. A change in this file is a change of the public API."""

from __future__ import annotations

import importlib

import pytest

PUBLIC = {
    "kubesched.sim": """
        Comparison Configuration Difference Divergence Results RunResult Scenario ScenarioError
        Side first_divergence load_scenario parse_scenario run
    """,
    "kubesched": "Scheduler __version__ connect",
    "kubesched.framework": """
        MAX_NODE_SCORE MIN_NODE_SCORE MOST_PANEL_ROWS REJECTED SKIP SUCCESS ActionType AffinityTerm
        ApiDispatcher BackgroundCall BackgroundCallOutcome BackgroundCallResult Cause
        ClaimCache Clonable ClusterChange ClusterEvent ClusterEventWithHint ClusterVersion Code
        CycleState Detail Diagnosis DryRun
        EventRecorder EventResource Explaining Extender ExtensionPoint FitError Handle HintFunction
        ImageState Informer Lister NodeInfo NodeScores NodeView NominatedTotals Nominating
        NominatingMode Nominator ObjectReader OnlyNodes
        Panel PanelMark PanelMeter PanelRow Plugin
        PluginMetrics PodGroupAssignments PodGroupDryRun PodGroupInfo PodGroupPlacement PodInPreBind
        PodIndex PodInfo PodPart PodsOnNode PostFilterResult PreemptionRules
        QueuedPodInfo QueueingHint Reads RejectedNodes Rejections Remedy Removal
        RuleKind SharedState Snapshot StateNotFoundError Status
        TotalsView
        VictimPreemption VictimReview Victims Wait WaitingPod WeightedAffinityTerm
        extension_points overrides
    """,
    "kubesched.testing": """
        HOSTNAME REGION ZONE ApiCall Cluster ClusterObjects ExtenderCall FakeApi FakeExtender
        FakeHandle FakeLister FakeObjects FakePodInPreBind FakeRecorder FakeWaitingPod
        RecordedEvent Reply SchedulerCommand check_plugin cluster_in_thread keep_nodes
        make_affinity make_container
        make_csi_driver make_csi_node make_csi_storage_capacity make_meta make_namespace make_node
        make_node_selector make_node_term make_nominator make_owner make_pdb make_pod make_pod_term
        make_port make_priority_class make_pv make_pvc make_replica_set
        make_replication_controller make_selector make_service make_snapshot make_spread
        make_stateful_set make_storage_class make_taint make_toleration make_view random_cluster
        random_node random_pod run_filter run_score score_nodes
        Claim Never Only Pending PendingAtMost PerNode Placed PlacedPod Placement Spread
        expect_placement
    """,
}


@pytest.mark.parametrize("name", PUBLIC)
def test_the_public_names(name: str) -> None:
    module = importlib.import_module(name)
    assert sorted(module.__all__) == sorted(PUBLIC[name].split())
    assert set(module.__all__) <= set(dir(module))
    for each in module.__all__:
        assert getattr(module, each) is not None
