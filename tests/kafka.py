"""A real Kafka broker for tests, and the jars that Spark needs to talk to it.

Maven brings both from the package registry, once, into the user's cache.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from tests.engines.spark.flows import until

_BROKER = (
    "org.apache.kafka:kafka_2.13:4.3.1",
    "org.apache.kafka:kafka-tools:4.3.1",
    "org.slf4j:slf4j-simple:1.7.36",
)
# The connector of Spark 4.3 itself is not complete on Maven Central; these run on it.
_CONNECTOR = (
    "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.13:4.0.0",
    "org.apache.kafka:kafka-clients:3.9.2",
    "org.apache.commons:commons-pool2:2.13.1",
)
_ALONE = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
log.dirs={data}
num.partitions=3
broker.session.timeout.ms=120000
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


class Unavailable(Exception):
    """Why there is no Kafka here."""


def connector() -> list[Path]:
    """The jars of Spark's Kafka connector."""
    return sorted(_installed("connector", _CONNECTOR, alone=True).glob("*.jar"))


@contextmanager
def broker(folder: Path, *topics: str) -> Iterator[str]:
    """A broker with some topics, its data in a folder; gives its address, ends with the block."""
    classes = f"{_installed('broker', _BROKER, alone=False)}/*"
    folder.mkdir(parents=True)
    port, controller = _free_ports(2)
    settings = folder / "server.properties"
    settings.write_text(_SETTINGS.format(port=port, controller=controller, data=folder / "data"))
    java = ["java", "-Xmx400m", "-XX:+UseSerialGC", "-cp", classes]
    form = ["kafka.tools.StorageTool", "format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c"]
    subprocess.run([*java, *form, str(settings)], check=True, capture_output=True, timeout=120)
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(settings)], stdout=log, stderr=subprocess.STDOUT
        )
        try:
            until(lambda: process.poll() is not None or _answers(port), "the broker")
            if process.poll() is not None:
                raise RuntimeError(f"the broker has ended: {(folder / 'log').read_text()[-2000:]}")
            make = [*java, "org.apache.kafka.tools.TopicCommand", "--create"]
            to = ["--bootstrap-server", f"127.0.0.1:{port}", "--partitions", "3", "--topic"]
            made = [subprocess.Popen([*make, *to, name], stdout=log, stderr=log) for name in topics]
            if any(one.wait(180) for one in made):
                raise RuntimeError(f"no topics: {(folder / 'log').read_text()[-2000:]}")
            yield f"127.0.0.1:{port}"
        finally:
            process.kill()
            process.wait()


def _installed(name: str, artifacts: Iterable[str], alone: bool) -> Path:
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "penstock-tests"
    jars = cache / name / "jars"
    if jars.exists():
        return jars
    if shutil.which("mvn") is None:
        raise Unavailable("Maven (mvn) is not installed, so there is no Kafka to test with")
    jars.parent.mkdir(parents=True, exist_ok=True)
    (jars.parent / "pom.xml").write_text(_project(artifacts, alone))
    draft = jars.with_name("draft")
    shutil.rmtree(draft, ignore_errors=True)
    copy = ["dependency:copy-dependencies", f"-DoutputDirectory={draft}"]
    done = subprocess.run(["mvn", "-q", "-B", *copy], cwd=jars.parent, capture_output=True)
    if done.returncode != 0:
        said = (done.stdout + done.stderr).decode(errors="replace").strip().splitlines()
        raise Unavailable(f"Maven could not bring Kafka: {said[0] if said else 'no reason given'}")
    draft.rename(jars)
    return jars


def _project(artifacts: Iterable[str], alone: bool) -> str:
    dependencies = ""
    for artifact in artifacts:
        group, name, version = artifact.split(":")
        dependencies += (
            f"<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId>"
            f"<version>{version}</version>{_ALONE if alone else ''}</dependency>"
        )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>penstock</groupId><artifactId>tests</artifactId><version>1</version>"
        f"<dependencies>{dependencies}</dependencies></project>"
    )


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]


def _answers(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0
