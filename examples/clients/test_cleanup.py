"""Completed Jobs are deleted, except those to keep and those still running; uses asyncio."""

from __future__ import annotations

import asyncio

import kr8s
from cleanup import clean_up

from kubesched.api import Container, Job, JobSpec, ObjectMeta, PodSpec, PodTemplateSpec
from kubesched.testing import Cluster


def job(name: str, command: str, **labels: str) -> Job:
    container = Container(name="c", image="sums", command=("sh", "-c", command))
    pod = PodSpec(restart_policy="Never", containers=(container,))
    return Job(
        metadata=ObjectMeta(name=name, namespace="default", labels=labels),
        spec=JobSpec(template=PodTemplateSpec(spec=pod)),
    )


def test_jobs_that_are_done_go() -> None:
    async def main() -> None:
        async with Cluster(nodes=1) as cluster:
            await cluster.api.create(job("done", "exit 0"))
            await cluster.api.create(job("kept", "exit 0", **{"example.com/keep": "true"}))
            await cluster.api.create(job("works", "sleep 3600"))
            await cluster.wait_for(Job, "done", "Complete")
            await cluster.wait_for(Job, "kept", "Complete")
            api = await kr8s.asyncio.api(kubeconfig=str(cluster.kubeconfig_path))
            assert await clean_up(api) == ["done"]
            left = await cluster.api.list(Job, "default")
            assert sorted(each.metadata.name for each in left.items) == ["kept", "works"]

    asyncio.run(main())
