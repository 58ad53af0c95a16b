"""The shell command that dumps everything that scheduling depends on with kubectl."""

from __future__ import annotations

from kubesched.explain.clusters.dump_files import DUMPED, name_for_kubectl
from kubesched.explain.clusters.sources import SCHEDULING_KINDS

__all__ = ["dump_script"]


def dump_script(kubectl: str = "kubectl", file: str = "dump.yaml") -> str:
    """Return the command.

    It lists the kinds one by one, so that it does not end at a kind that the server does not serve
    or that the user may not list. Comments in the output name the kinds that were listed, because
    an empty list of kubectl does not contain its kind.
    """
    kinds = " ".join(map(name_for_kubectl, SCHEDULING_KINDS))
    return "\n".join(
        [
            f"for kind in {kinds}; do",
            f'  {kubectl} get "$kind" -A -o yaml && echo "{DUMPED} $kind"',
            '  echo "---"',
            f"done > {file}",
        ]
    )
