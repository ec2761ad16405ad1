"""The load: ComputeDomains with a member on every node, that share memory all the time and whose every attempt is judged."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from urllib3.exceptions import HTTPError

from lab.client import (
    COMPUTE_DOMAIN, NAMESPACE, POD, SERVICE_ACCOUNT, ApiError, Cluster, Kind, Object, compute_domain_manifest, pod_manifest, wait_until,
)
from lab.identity import CHECKOUT

from .verdict import Attempt, Disturbances, Place, judge, now, parse

# A directory of the machine and hence of every node. It is the workloads' own network, so to speak: it works without the API server.
FOLDER = CHECKOUT / "build" / "faults"
SCRIPT = Path(__file__).with_name("member.sh")
NO_ANSWER = (ApiError, OSError, HTTPError)
# Of the fault of that name. Whoever waits for the API server then has this much more time.
LONG_OUTAGE = 600.0
ALLOWANCE = LONG_OUTAGE if "long-api-outage" in os.environ.get("FAULTS", "") else 0.0


def insist(call: Callable[[], Any], what: str, timeout: float = 60) -> Any:
    """The call's result, as soon as the API server answers it."""
    result: list[Any] = []

    def answered() -> bool:
        try:
            result[:] = [call()]
        except ApiError as error:
            if error.status == 409:
                raise
            return False
        except NO_ANSWER:
            return False
        return True

    wait_until(answered, what, timeout + ALLOWANCE)
    return result[0]


def create_once(cluster: Cluster, kind: Kind, body: Object, namespace: str = "default") -> None:
    """One that is there already is fine: the answer to an earlier try may have been lost."""
    try:
        cluster.create(kind, body, namespace)
    except ApiError as error:
        if error.status != 409:
            raise


def member_pod(name: str, place: Place, template: str) -> Object:
    """The pod of a member; it reaches the others' handles through the shared folder."""
    pod = pod_manifest(name, place.node, template, ["sh", "/load/member.sh", "/load", place.domain, place.node],
                       labels={"domain": place.domain}, volumes=[{"name": "load", "hostPath": {"path": str(FOLDER)}}])
    pod["spec"]["containers"][0]["volumeMounts"] = [{"name": "load", "mountPath": "/load"}]
    return pod


class Evidence:
    """Reads what the members note, judges it, and keeps what was wrong and when a pair last succeeded."""

    def __init__(self, disturbances: Disturbances) -> None:
        self.wrong: list[str] = []
        self.judged = 0
        self.refused = 0
        self._disturbances = disturbances
        self._offsets: dict[Path, int] = {}
        self._succeeded: dict[tuple[Place, Place], float] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="evidence")

    def __enter__(self) -> Evidence:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def last_success(self, importer: Place, exporter: Place) -> float:
        return self._succeeded.get((importer, exporter), 0)

    def add_wrong(self, what: str) -> None:
        self.wrong.append(what)

    def _run(self) -> None:
        while not self._stop.wait(0.2):
            try:
                self._read_all()
            except FileNotFoundError:
                continue  # a folder went while it was listed: what is left is read next time
            except Exception as error:  # a judge that died would let everything pass
                self.add_wrong(f"the evidence cannot be read: {error!r}")
                raise

    def _read_all(self) -> None:
        # Folders of gangs that ended are removed meanwhile.
        for domain in os.listdir(FOLDER):
            for node in os.listdir(FOLDER / domain) if (FOLDER / domain).is_dir() else []:
                for line in self._new_lines(FOLDER / domain / node / "log"):
                    self._judge(parse(line, Place(domain, node)))

    def _new_lines(self, log: Path) -> Iterator[str]:
        try:
            with log.open() as stream:
                stream.seek(self._offsets.get(log, 0))
                text = stream.read()
        except FileNotFoundError:
            return
        whole = text.rpartition("\n")[0]
        self._offsets[log] = self._offsets.get(log, 0) + len((whole + "\n").encode() if whole else b"")
        # What a program printed may have several lines; only the first of an attempt begins with its kind.
        yield from (line for line in whole.split("\n") if line.startswith(("import ", "hold ", "export ")))

    def _judge(self, attempt: Attempt) -> None:
        self.judged += 1
        verdict = judge(attempt, self._disturbances)
        if verdict:
            self.add_wrong(verdict)
        elif attempt.kind == "import" and attempt.code == 0:
            self._succeeded[attempt.member, attempt.exporter] = attempt.begin
        elif attempt.member.domain != attempt.exporter.domain:
            self.refused += 1


class Domain:
    """A ComputeDomain with a member on every node. Made anew it has another name, so that nobody takes old memory for new."""

    def __init__(self, cluster: Cluster, namespace: str, color: str, nodes: list[str]) -> None:
        self.cluster, self.namespace, self.color, self.nodes = cluster, namespace, color, nodes
        self.incarnation = 0

    @property
    def name(self) -> str:
        return f"{self.color}-{self.incarnation}"

    def places(self) -> list[Place]:
        return [Place(self.name, node) for node in self.nodes]

    def pod_name(self, node: str) -> str:
        return f"{self.name}-{node}"

    def create(self) -> None:
        # Handles of the one before stay for a while: others shall try to import dead memory too.
        shutil.rmtree(FOLDER / f"{self.color}-{self.incarnation - 1}", ignore_errors=True)
        self.incarnation += 1
        insist(lambda: create_once(self.cluster, COMPUTE_DOMAIN, compute_domain_manifest(self.name), self.namespace),
               f"ComputeDomain {self.name} created")
        for node in self.nodes:
            self.create_pod(node)

    def create_pod(self, node: str) -> None:
        place = Place(self.name, node)
        pod = member_pod(self.pod_name(node), place, f"{self.name}-channel")
        insist(lambda: create_once(self.cluster, POD, pod, self.namespace), f"pod of {place} created")

    def pods(self) -> dict[str, Object]:
        """node → its member's pod."""
        pods = self.cluster.list(POD, self.namespace, labelSelector=f"domain={self.name}")
        return {pod["metadata"]["name"].removeprefix(f"{self.name}-"): pod for pod in pods}

    def replace_dead(self) -> None:
        """New pods for members that ended with their node, once that is known."""
        pods = self.pods()
        for node in self.nodes:
            pod = pods.get(node)
            if pod is not None and (pod["status"].get("phase") in ("Failed", "Succeeded") or "deletionTimestamp" in pod["metadata"]):
                # A node that lost its memory has nothing to end gracefully.
                self.cluster.delete(POD, self.pod_name(node), self.namespace, grace=0)
            elif pod is None:
                self.create_pod(node)

    def running(self) -> bool:
        pods = self.pods()
        return all(node in pods and pods[node]["status"].get("phase") == "Running" and "deletionTimestamp" not in pods[node]["metadata"]
                   for node in self.nodes)

    def delete(self, grace: int | None = None) -> None:
        """Deletes domain and pods, and returns when the pods are gone."""
        for node in self.nodes:
            self.cluster.delete(POD, self.pod_name(node), self.namespace, grace)
        self.cluster.delete(COMPUTE_DOMAIN, self.name, self.namespace)
        wait_until(lambda: not self.pods(), f"pods of {self.name} gone", 120)


class Load:
    """Several domains on the same nodes, and the judge of what they see."""

    def __init__(self, cluster: Cluster, nodes: list[str], colors: list[str], prefix: str) -> None:
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        shutil.copy(SCRIPT, FOLDER / "member.sh")
        self.cluster, self.nodes = cluster, nodes
        self.disturbances = Disturbances()
        self.evidence = Evidence(self.disturbances)
        self.domains = [Domain(cluster, f"{prefix}-{color}", color, nodes) for color in colors]

    def start(self) -> None:
        for domain in self.domains:
            make_namespace(self.cluster, domain.namespace)
            domain.create()

    def sharing_since(self, begin: float) -> bool:
        """Every member has imported from every other one of its domain after that time."""
        return not self.missing_since(begin)

    def missing_since(self, begin: float) -> list[str]:
        return [f"{importer} ← {exporter}" for domain in self.domains for importer in domain.places() for exporter in domain.places()
                if self.evidence.last_success(importer, exporter) <= begin]

    def check(self) -> None:
        assert not self.evidence.wrong, "\n".join(self.evidence.wrong[:5])

    def settle(self, ready: Callable[[], bool], timeout: float, patience: Callable[[], None] = lambda: None) -> None:
        """Returns when the driver is ready, all members run, and every pair shares memory anew. `patience` runs every 15 s meanwhile."""
        begin = asked = now()

        def settled() -> bool:
            nonlocal asked
            self.check()
            if now() - asked > 15:
                patience()
                asked = now()
            try:
                for domain in self.domains:
                    domain.replace_dead()
                return ready() and all(domain.running() for domain in self.domains) and self.sharing_since(begin)
            except NO_ANSWER:
                return False

        try:
            wait_until(settled, "all members share memory", timeout, 0.25)
        except AssertionError as error:
            raise AssertionError(f"{error}; driver ready: {ready()}; missing: {self.missing_since(begin)}") from error

    @contextmanager
    def disturbed(self, what: str, nodes: frozenset[str], domains: frozenset[str]) -> Iterator[None]:
        """Excuses failed imports from and to these nodes and of these domains meanwhile. With neither of them, nothing is excused."""
        disturbance = self.disturbances.begin(what, nodes, domains)
        yield
        disturbance.end = now()

    def stop(self) -> None:
        for domain in self.domains:
            self.disturbances.begin("end", domains=frozenset({domain.name}))
            domain.delete()
            self.cluster.delete(NAMESPACE, domain.namespace)


def make_namespace(cluster: Cluster, name: str) -> None:
    def made() -> bool:
        create_once(cluster, NAMESPACE, {"metadata": {"name": name}})
        found = cluster.find(SERVICE_ACCOUNT, "default", name)
        return found is not None and "deletionTimestamp" not in cluster.get(NAMESPACE, name)["metadata"]

    wait_until(made, f"namespace {name} with its service account", 60)
