"""What must be true of the cluster: while faults strike, and when all is deleted."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from lab import rollout
from lab.client import (
    CLAIM, CLAIM_TEMPLATE, COMPUTE_DOMAIN, DAEMON_SET, DEPLOYMENT, IMEX_DOMAIN, IMEX_NODE, NODE, POD, Cluster, condition,
)
from tests.e2e.conftest import DRIVER_NAMESPACE, driver_ready
from tests.e2e.driver_pods import PROGRAMS, imex_processes, pods_of
from tests.e2e.node_files import PLUGIN_DIR, cdi_files, checkpoint_claims, lab, on_node, processes

from .load import NO_ANSWER, Load


def all_connected(cluster: Cluster, nodes: list[str]) -> bool:
    """Every node's daemon is connected with every other one of its IMEX domain."""
    imex_nodes = {n["metadata"]["name"]: n for n in cluster.list(IMEX_NODE)}
    if not all(imex_nodes.get(node, {}).get("spec", {}).get("domain") for node in nodes):
        return False
    index = {node: imex_nodes[node]["spec"]["domain"]["index"] for node in nodes}
    connected = {node: set(imex_nodes[node].get("status", {}).get("daemon", {}).get("connected", [])) for node in nodes}
    return all(set(index.values()) - {index[node]} <= connected[node] for node in nodes)


def programs_live(cluster: Cluster) -> bool:
    """Each of the driver's pods has its program running now, whatever its status still says."""
    running = defaultdict(set)
    for _, program, cgroups in processes():
        if found := re.search(r"/pod([0-9a-f-]{36})/", cgroups):
            running[found[1]].add(program)
    return all(PROGRAMS[part] in running[pod["metadata"]["uid"]] for part in PROGRAMS for pod in pods_of(cluster, part))


def end_back_offs(cluster: Cluster) -> list[str]:
    """Deletes the driver's pods that the kubelet restarts no more for a while: a series kills them more often than life does."""
    ended = []
    for part in PROGRAMS:
        for pod in pods_of(cluster, part):
            states = [status.get("state", {}).get("waiting", {}).get("reason") for status in pod["status"].get("containerStatuses", [])]
            if "CrashLoopBackOff" in states:
                cluster.delete(POD, pod["metadata"]["name"], DRIVER_NAMESPACE)
                ended.append(pod["metadata"]["name"])
    return ended


def healthy(cluster: Cluster, nodes: list[str]) -> bool:
    """Nodes Ready, every part of the driver there and running, all daemons connected."""
    try:
        found = {n["metadata"]["name"]: condition(n, "Ready").get("status") for n in cluster.list(NODE)}
        return (all(found.get(node) == "True" for node in nodes) and driver_ready(cluster, nodes) and counts_are_current(cluster)
                and programs_live(cluster) and all_connected(cluster, nodes))
    except NO_ANSWER:
        return False


def revive_control_plane() -> list[str]:
    """Starts those programs of Kubernetes again that have ended, as a kubelet does with static pods; their names.

    The scheduler ends by intent when it finds its cache inconsistent, which an API server killed under load can bring about.
    """
    lines = [line.split() for line in lab("status").splitlines()]
    dead = [line[0] for line in lines if line[:1] in (["kube-scheduler"], ["kube-controller-manager"]) and line[1] == "-"]
    for program in dead:
        lab("component", "start", program)
    return dead


def counts_are_current(cluster: Cluster) -> bool:
    """The counts of deployments and daemon sets are about what they ask for now."""
    owners = cluster.list(DEPLOYMENT, DRIVER_NAMESPACE) + cluster.list(DAEMON_SET, DRIVER_NAMESPACE)
    return all(rollout.is_observed(owner) for owner in owners)


def broken_rules(cluster: Cluster) -> list[str]:
    """Numbers with two owners, owners with two numbers, slots with two nodes."""
    wrong = []
    for domain in cluster.list(IMEX_DOMAIN):
        leases = domain["spec"].get("channels", [])
        numbers = Counter(lease["channel"] for lease in leases)
        owners = Counter(lease["computeDomain"]["uid"] for lease in leases if lease["state"] == "Active")
        slots = Counter(member["index"] for member in domain["spec"].get("members", []))
        for what, counts in (("channel", numbers), ("owner", owners), ("slot", slots)):
            wrong += [f"{what} {key} {count} times in IMEXDomain {domain['metadata']['name']}" for key, count in counts.items() if count > 1]
        wrong += [f"channel {number} is none for workloads" for number in numbers if number < 1]
    return wrong


def undisturbed(cluster: Cluster, load: Load, nodes: frozenset[str], domains: frozenset[str]) -> dict[str, object]:
    """What no fault elsewhere may change: the nvidia-imex of the other nodes, and the other domains' pods on them."""
    imex = imex_processes(cluster)
    facts: dict[str, object] = {f"nvidia-imex of {node}": imex.get(node) for node in load.nodes if node not in nodes}
    for domain in load.domains:
        if domain.name not in domains:
            pods = domain.pods()
            facts |= {f"pod of {domain.name} on {node}": pods[node]["metadata"]["uid"] for node in load.nodes if node in pods and node not in nodes}
    return facts


def leftovers(cluster: Cluster, nodes: list[str]) -> list[str]:
    """Everything of a ComputeDomain that still exists anywhere. The daemons' claims are the driver's own."""
    claims = cluster.list(CLAIM)
    daemons = {c["metadata"]["uid"] for c in claims if c["metadata"]["namespace"] == DRIVER_NAMESPACE}
    left = [f"{kind.kind} {o['metadata']['namespace']}/{o['metadata']['name']}" for kind in (COMPUTE_DOMAIN, POD, CLAIM, CLAIM_TEMPLATE)
            for o in cluster.list(kind) if o["metadata"]["namespace"] not in (DRIVER_NAMESPACE, "kube-system")]
    for domain in cluster.list(IMEX_DOMAIN):
        left += [f"lease of channel {lease['channel']} by {lease['computeDomain']}" for lease in domain["spec"].get("channels", [])]
        left += [f"refusal {refusal}" for refusal in domain["spec"].get("refusals", [])]
        left += [f"slot {m['index']} of {m['node']}, which does not exist" for m in domain["spec"].get("members", []) if m["node"] not in nodes]
    for node in cluster.list(IMEX_NODE):
        left += [f"channel {c['channel']} reported by {node['metadata']['name']}" for c in node.get("status", {}).get("channels", [])]
    for node in nodes:
        left += [f"CDI file {name} on {node}" for name in cdi_files(node) if not any(uid in name for uid in daemons)]
        left += [f"checkpoint entry {uid} on {node}" for uid in checkpoint_claims(node) if uid not in daemons]
        markers = on_node(node, "ls", f"{PLUGIN_DIR}/claims").split()
        left += [f"marker {name} on {node}" for name in markers if not any(uid in name for uid in daemons)]
    return left
