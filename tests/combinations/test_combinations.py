"""A ComputeDomain of every combination of wishes, all 16 side by side: what each shows is what rules.py says, word for word."""

from __future__ import annotations

import pytest

from demo import workload
from demo.workload import Member
from lab.client import CLAIM_TEMPLATE, COMPUTE_DOMAIN, IMEX_DOMAIN, IMEX_NODE, POD, Cluster, compute_domain_manifest, pod_manifest, wait_until

from .conftest import at_rest
from .observe import Observer
from .rules import LEGEND, OTHER, OTHER_DOMAIN, Combination, Row, Stage, combinations, expected, pods_at
from .table import Entry, Table

# The first wait of a pod ends after 10 s, and the kubelet may repeat it 90 s later; a node changes its IMEX domain on top.
LONGEST = 150


class Run:
    """The ComputeDomains' way through their stages."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self.table = Table()
        self._cluster = cluster
        self._namespace = namespace
        self._observer = Observer(cluster, namespace)

    def create(self, combination: Combination) -> None:
        self._cluster.create(COMPUTE_DOMAIN, compute_domain_manifest(combination.name, **combination.spec), self._namespace)

    def wait_accepted(self, combination: Combination) -> None:
        said = f"True{', one pod per node' if combination.exclusive else ''}"
        wait_until(lambda: self._observer.accepted(combination) == said, f"{combination.name} Accepted: {said}", 30)
        wait_until(lambda: self._cluster.find(CLAIM_TEMPLATE, f"{combination.name}-channel", self._namespace), "its template", 30)

    def begin(self, combination: Combination, stage: Stage) -> None:
        """Creates what the stage adds, and deletes what it removes."""
        there = {p for p in (*combination.nodes, OTHER) if self._cluster.find(POD, f"{combination.name}-{p}", self._namespace)}
        wanted = pods_at(combination, stage)
        for pod in sorted(wanted - there):
            self._create_pod(combination, pod)
        for pod in sorted(there - wanted - {OTHER}):
            self._cluster.delete(POD, f"{combination.name}-{pod}", self._namespace)
        if combination.exclusive and OTHER not in there:
            self._ask_for_its_node(combination)

    def _ask_for_its_node(self, combination: Combination) -> None:
        """A pod of another ComputeDomain, once the node is taken."""
        node, first = combination.nodes["home-1"], f"{combination.name}-home-1"
        wait_until(lambda: self._cluster.get(POD, first, self._namespace)["spec"].get("nodeName"), f"{first} scheduled", 30)
        self._cluster.create(POD, pod_manifest(f"{combination.name}-{OTHER}", node, f"{OTHER_DOMAIN}-channel"), self._namespace)

    def _create_pod(self, combination: Combination, pod: str) -> None:
        name, node, template = f"{combination.name}-{pod}", combination.nodes[pod], f"{combination.name}-channel"
        member = Member(combination.name, name, node)
        manifest = workload.exporter(member, template) if pod == "home-1" else pod_manifest(name, node, template)
        self._cluster.create(POD, manifest, self._namespace)

    def compare(self, having: list[Combination], stage: Stage) -> None:
        """Waits for the expected rows. What is there once all have been waited for goes into the table: a held pod that got away shows."""
        for combination in having:
            self._wait(combination, expected(combination, stage))
        self.table.entries += [Entry(c, stage, expected(c, stage), self._observer.row(c)) for c in having]

    def _wait(self, combination: Combination, wanted: Row) -> None:
        try:
            wait_until(lambda: self._observer.row(combination) == wanted, combination.name, LONGEST, 0.5)
        except AssertionError:
            pass  # the table tells, and the other combinations are still worth a look

    def row(self, combination: Combination) -> Row:
        return self._observer.row(combination)

    def channels(self, combination: Combination) -> dict[str, int]:
        return self._observer.channels(combination)

    def end(self, combination: Combination) -> None:
        """Its pods deleted and its nodes back in the shared domain; the ComputeDomain stays."""
        for pod in (OTHER, *combination.nodes):  # the other one first: it would be let in otherwise
            self._cluster.delete(POD, f"{combination.name}-{pod}", self._namespace)

        def gone() -> bool:
            return not any(d["spec"]["mode"] == "Exclusive" for d in self._cluster.list(IMEX_DOMAIN)) and at_rest(self._cluster)

        wait_until(gone, f"the nodes of {combination.name} back", 90)


def instances(cluster: Cluster, nodes: set[str]) -> dict[str, str]:
    """node → which run of nvidia-imex it is."""
    return {n["metadata"]["name"]: n["status"]["daemon"].get("instance", "") for n in cluster.list(IMEX_NODE) if n["metadata"]["name"] in nodes}


def test_every_combination_of_wishes(cluster: Cluster, namespace: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = Run(cluster, namespace)
    every = combinations()
    for combination in every:
        run.create(combination)
    for combination in every:
        run.wait_accepted(combination)

    shared = [c for c in every if not c.exclusive]
    for stage in Stage:
        having = [c for c in shared if stage in c.stages]
        for combination in having:
            run.begin(combination, stage)
        run.compare(having, stage)
    channels = [(domain, channel) for c in shared for domain, channel in run.channels(c).items()]
    before = instances(cluster, set(shared[0].nodes.values()))

    # One after the other: each takes the nodes as a whole.
    for combination in (c for c in every if c.exclusive):
        for stage in combination.stages:
            run.begin(combination, stage)
            run.compare([combination], stage)
        run.end(combination)

    with capsys.disabled():
        print(f"\n{LEGEND}\n\n{run.table.text()}\n")
    assert run.table.differences() == []
    assert len(channels) == len(set(channels)) and all(channel > 0 for _, channel in channels), f"a channel of one's own: {channels}"
    assert instances(cluster, set(shared[0].nodes.values())) == before, "nobody's nvidia-imex restarted meanwhile"
    for combination in shared:
        assert run.row(combination) == expected(combination, combination.stages[-1]), f"{combination.name} as it was before the exclusive ones"
