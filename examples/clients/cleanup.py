"""Delete completed Jobs, except those with the label `keep`."""

from __future__ import annotations

from kr8s.asyncio import Api
from kr8s.asyncio.objects import Job

KEEP = "example.com/keep"


async def clean_up(api: Api) -> list[str]:
    """Delete Jobs that have succeeded, with their pods; return their names."""
    deleted = []
    async for job in api.get(Job, namespace="default"):
        conditions = job.status.get("conditions", [])
        is_done = any(
            each["type"] == "Complete" and each["status"] == "True" for each in conditions
        )
        if is_done and KEEP not in job.labels:
            await job.delete(propagation_policy="Background")
            deleted.append(job.name)
    return deleted
