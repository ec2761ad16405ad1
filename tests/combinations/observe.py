"""What the cluster shows of a ComputeDomain and its pods, in the words of rules.py. Where it shows something else, the cell says what."""

from __future__ import annotations

from dataclasses import dataclass

from demo import workload
from lab.client import COMPUTE_DOMAIN, EVENT, IMEX_NODE, POD, Cluster, Object, condition, run_in_pod

from .rules import ABSENT, HELD, NO_CHANNEL, OTHER, PODS, REFUSED, UNSCHEDULABLE, Combination, Row, partition_of

Inside = tuple[tuple[int, ...], str, str]  # of a container: its channel devices, and what its environment says of channel and fabric


@dataclass(frozen=True)
class Domain:
    """A ComputeDomain as it is now."""

    uid: str
    status: Object

    def lease(self, clique: str) -> Object:
        """Its entry for a clique, or an empty one."""
        return next((p for p in self.status.get("partitions", []) if p["cliqueID"] == clique), {})

    def reason(self, kind: str) -> str:
        return condition({"status": self.status}, kind).get("reason", "")


class Observer:
    """Looks at all ComputeDomains of one namespace."""

    def __init__(self, cluster: Cluster, namespace: str) -> None:
        self._cluster = cluster
        self._namespace = namespace
        self._inside: dict[str, Inside] = {}  # by the pod's UID: a container keeps what it was started with
        nodes = cluster.list(IMEX_NODE)
        self._clique_of = {n["metadata"]["name"]: "".join(n["status"]["fabric"].get("cliqueIDs", [])) for n in nodes}

    def row(self, combination: Combination) -> Row:
        found = self._cluster.get(COMPUTE_DOMAIN, combination.name, self._namespace)
        domain = Domain(found["metadata"]["uid"], found.get("status", {}))
        pods = {pod: self._pod(domain, combination, pod) for pod in (*PODS, OTHER)}
        summary = domain.status.get("nodeSummary", {})
        return {
            **pods,
            "memory": self._memory(combination, pods),
            "partitions": self._partitions(domain),
            "nodes": f"{summary.get('ready', 0)}/{summary.get('total', 0)}, {summary.get('withoutFabric', 0)} bare",
            "Ready": domain.reason("Ready"),
            "Formed": domain.reason("Formed"),
        }

    def accepted(self, combination: Combination) -> str:
        """The condition's status, and whether it says that a pod takes a whole node."""
        found = condition(self._cluster.get(COMPUTE_DOMAIN, combination.name, self._namespace), "Accepted")
        whole = "one pod of this ComputeDomain per node" in found.get("message", "")
        return f"{found.get('status', '')}{', one pod per node' if whole else ''}"

    def channels(self, combination: Combination) -> dict[str, int]:
        """IMEX domain → channel."""
        found = self._cluster.get(COMPUTE_DOMAIN, combination.name, self._namespace)
        return {p["imexDomain"]: p["channel"] for p in found["status"].get("partitions", [])}

    def _pod(self, domain: Domain, combination: Combination, pod: str) -> str:
        name = f"{combination.name}-{pod}"
        found = self._cluster.find(POD, name, self._namespace)
        if found is None:
            return ABSENT
        if found["status"].get("phase") == "Running":
            return self._running(domain, found)
        scheduled = condition(found, "PodScheduled")
        if scheduled.get("reason") == "Unschedulable":
            return UNSCHEDULABLE if "cannot allocate all claims" in scheduled["message"] else scheduled["message"]
        told = self._events(name)
        if "OtherPartition: " in told:
            # Which one the others are in, and which one this is.
            both = domain.status.get("partition", "?") in told and self._clique_of[found["spec"]["nodeName"]] in told
            return REFUSED if both else told
        return HELD if "held until it has formed" in told else f"{found['status'].get('phase')}: {told}"

    def _events(self, pod: str, reason: str = "") -> str:
        events = self._cluster.list(EVENT, self._namespace, fieldSelector=f"involvedObject.name={pod}")
        return "\n".join(e["message"] for e in events if reason in ("", e["reason"]))

    def _running(self, domain: Domain, pod: Object) -> str:
        name, node = pod["metadata"]["name"], pod["spec"]["nodeName"]
        devices, channel, fabric = inside = self._look_inside(pod)
        clique = self._clique_of[node]
        if not clique:
            told = node in self._events(name, "NoChannel")
            return NO_CHANNEL if inside == ((), "", "false") and told else f"{inside}, told: {told}"
        lease = domain.lease(clique)
        granted = lease.get("channel")
        if devices != (granted,) or channel != str(granted) or fabric != "true":
            return f"{inside} instead of channel {granted}"
        serves = self._cluster.get(IMEX_NODE, node)["spec"].get("domain", {}).get("name", "")
        if lease["imexDomain"] != serves:
            return f"channel of {lease['imexDomain']} on a node in {serves}"
        kind = {clique: "shared", f"{domain.uid}.{clique}": "own"}.get(serves, serves)
        return f"{partition_of(node)}/{kind}"

    def _look_inside(self, pod: Object) -> Inside:
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if uid not in self._inside:
            lines = run_in_pod(name, "env", namespace=self._namespace).stdout.splitlines()
            said = dict(line.split("=", 1) for line in lines if line.startswith("NVIDIA_COMPUTE_DOMAIN"))
            devices = tuple(workload.channels_of(name, self._namespace))
            self._inside[uid] = (devices, said.get("NVIDIA_COMPUTE_DOMAIN_CHANNEL", ""), said.get("NVIDIA_COMPUTE_DOMAIN_FABRIC", ""))
        return self._inside[uid]

    def _memory(self, combination: Combination, pods: Row) -> str:
        """Which of the running pods can import what home-1 exports."""
        readers = [pod for pod in PODS[1:] if "/" in pods[pod] or pods[pod] == NO_CHANNEL]
        if "/" not in pods["home-1"] or not readers:
            return ABSENT
        handle = workload.handle_of(self._cluster, f"{combination.name}-home-1", self._namespace)
        can = {pod: workload.import_memory(f"{combination.name}-{pod}", handle, self._namespace).returncode == 0 for pod in readers}
        return ", ".join(f"{pod} {'yes' if can[pod] else 'no'}" for pod in readers)

    def _partitions(self, domain: Domain) -> str:
        names = {clique: partition_of(node) for node, clique in self._clique_of.items()}
        return ", ".join(sorted(f"{names[p['cliqueID']]} {p['readyNodes']}/{p['nodes']}" for p in domain.status.get("partitions", [])))
