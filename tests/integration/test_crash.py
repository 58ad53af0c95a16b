"""`kill -9` during many writes: acknowledged writes are stored, and versions never go back.

`KUBESCHED_CRASHES` is the number of crashes; the default is 3.
"""

from __future__ import annotations

import asyncio
import base64
import os
import random
import ssl
import sys
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

CRASHES = int(os.environ.get("KUBESCHED_CRASHES", "3"))
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}


def _named(entries: list[dict[str, Any]], name: str) -> dict[str, Any]:
    return next(each for each in entries if each["name"] == name)


class Process:
    """`kubesched up` with a data file, and a client of it."""

    def __init__(self, folder: Path) -> None:
        self._data, self._config = folder / "cluster.db", folder / "kubeconfig"
        self._nodes = folder / "nodes.yaml"
        self._nodes.write_text("{apiVersion: v1, kind: Node, metadata: {name: 'n'}}\n")

    async def start(self) -> None:
        options = ["-f", str(self._nodes), "--data", str(self._data), "--listen", "127.0.0.1:0"]
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "kubesched.cli.main", "up", *options),
            *("--kubeconfig", str(self._config)),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self.process.stderr is not None
        seen = b""
        while b"KUBECONFIG" not in (line := await self.process.stderr.readline()):
            assert line, seen.decode()
            seen += line
        document = yaml.safe_load(self._config.read_text())
        named = {each["name"]: each["context"] for each in document["contexts"]}
        context = named[document["current-context"]]
        cluster = _named(document["clusters"], context["cluster"])["cluster"]
        user = _named(document["users"], context["user"])["user"]
        self.token = user["token"]
        authority = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self.client = aiohttp.ClientSession(
            cluster["server"],
            headers={"Authorization": f"Bearer {self.token}"},
            connector=aiohttp.TCPConnector(ssl=ssl.create_default_context(cadata=authority)),
        )

    async def kill(self) -> None:
        self.process.kill()
        await self.process.wait()
        await self.client.close()


class WriteLoad:
    """Writers, and the writes that the server acknowledged."""

    def __init__(self, process: Process, rng: random.Random) -> None:
        self._process, self._rng = process, rng
        self.acknowledged: dict[str, tuple[str, int]] = {}
        self.tried: dict[str, set[str]] = {}
        self._written = 0

    async def write_for(self, seconds: float) -> None:
        writers = [asyncio.create_task(self._write(number)) for number in range(8)]
        await asyncio.sleep(seconds)
        await self._process.kill()
        await asyncio.gather(*writers)

    async def _write(self, writer: int) -> None:
        while True:
            self._written += 1
            name, value = f"c-{writer}-{self._rng.randrange(20)}", str(self._written)
            self.tried.setdefault(name, set()).add(value)
            try:
                body = await self._put(name, value)
            except aiohttp.ClientError:
                return
            self.acknowledged[name] = (value, int(body["metadata"]["resourceVersion"]))

    async def _put(self, name: str, value: str) -> Any:
        client = self._process.client
        path, patch = f"{CONFIG_MAPS}/{name}", {"data": {"a": value}}
        async with client.patch(path, json=patch, headers=MERGE) as answer:
            if answer.status == 200:
                return await answer.json()
        async with client.post(CONFIG_MAPS, json={"metadata": {"name": name}, **patch}) as answer:
            assert answer.status == 201
            return await answer.json()


def check(listed: Any, load: WriteLoad) -> None:
    there = {each["metadata"]["name"]: each for each in listed["items"]}
    version = int(listed["metadata"]["resourceVersion"])
    for name, (value, written) in load.acknowledged.items():
        found = there[name]
        assert int(found["metadata"]["resourceVersion"]) >= written
        assert written <= version
        # Requests in flight may have arrived.
        assert found["data"]["a"] == value or (
            found["data"]["a"] in load.tried[name]
            and int(found["metadata"]["resourceVersion"]) > written
        )


@pytest.mark.skipif(not CRASHES, reason="KUBESCHED_CRASHES=0")
def test_acknowledged_writes_survive_a_crash(tmp_path: Path) -> None:
    rng = random.Random(1)

    async def main() -> None:
        process = Process(tmp_path)
        await process.start()
        load = WriteLoad(process, rng)
        token = process.token
        for _ in range(CRASHES):
            await load.write_for(rng.uniform(0.05, 0.5))
            await process.start()
            async with process.client.get(CONFIG_MAPS) as answer:
                check(await answer.json(), load)
            last = max((version for _, version in load.acknowledged.values()), default=1)
            watch = f"{CONFIG_MAPS}?watch=1&timeoutSeconds=1&resourceVersion={last}"
            async with process.client.get(watch) as answer:
                assert answer.status in (200, 410)
            assert process.token == token
        assert len(load.acknowledged) > CRASHES
        await process.kill()

    asyncio.run(main())
