"""The parts that are compiled where there is a compiler; all else is in pyproject.toml.

The loops in `_compiled.c` are built whenever a C compiler is there. With KUBESCHED_COMPILE=1 in the
environment, mypyc also compiles the modules below, which most of the scheduler's processor time is
spent in (docs/decisions/0050). They need the packages of requirements-dev.txt.
"""

import os
import sys

from setuptools import Extension, setup

_COMPILED = (
    "foundation/util/small_cache",
    "framework/engine/domain_counts",
    "framework/engine/interning",
    "framework/engine/total_index",
    "framework/pod_index",
    "scheduler/backend/cache",
    "scheduler/backend/cluster_snapshot",
    "scheduler/backend/grouping_cache",
    "scheduler/plugins/inter_pod_affinity/filtering",
    "scheduler/plugins/inter_pod_affinity/scoring",
    "scheduler/plugins/inter_pod_affinity/topology_counts",
    "scheduler/runtime/answer_cache",
    "scheduler/runtime/cached_answers",
    "scheduler/runtime/dry_run",
    "scheduler/runtime/framework",
    "scheduler/runtime/nominated_totals",
    "scheduler/runtime/plugin_calls",
    "scheduler/runtime/point_metrics",
    "scheduler/runtime/ties",
    "scheduler/runtime/traced_points",
    "scheduler/search/cached_evaluation",
    "scheduler/search/cached_search",
    "scheduler/search/fit_checks",
    "scheduler/search/full_search",
    "scheduler/search/node_filtering",
    "scheduler/search/node_scoring",
    "scheduler/search/nominated_filter",
)

_LOOPS = Extension(
    "kubesched.framework.engine._compiled",
    ["src/kubesched/framework/engine/_compiled.c"],
    # Fused operations would round once where the reference rounds twice.
    extra_compile_args=["-O3", "-ffp-contract=off", "-fno-trapping-math", "-fno-math-errno"],
    optional=True,
)


def _modules() -> list[Extension]:
    """Return the modules that mypyc compiles; none unless the environment asks for them."""
    if os.environ.get("KUBESCHED_COMPILE") != "1":
        return []
    if "editable_wheel" in sys.argv:
        # A compiled module would go on hiding its source after that was edited.
        sys.exit("KUBESCHED_COMPILE=1: modules are not compiled for an editable installation")
    try:
        from mypyc.build import mypycify
    except ImportError:
        sys.exit(
            "KUBESCHED_COMPILE=1: mypyc is missing; run pip install -r requirements-dev.txt and "
            "then pip install --no-build-isolation ."
        )
    files = [f"src/kubesched/{module}.py" for module in _COMPILED]
    modules: list[Extension] = mypycify(["--config-file", "pyproject.toml", *files])
    return modules


setup(ext_modules=[_LOOPS, *_modules()])
