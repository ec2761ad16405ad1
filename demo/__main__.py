"""`make demo`: shows two ComputeDomains on the same nodes, then deletes them and shows that nothing is left."""

from __future__ import annotations

import sys
import time

from demo import workload
from demo.workload import Member
from lab.client import (
    CLAIM, CLAIM_TEMPLATE, COMPUTE_DOMAIN, IMEX_DOMAIN, IMEX_NODE, NAMESPACE, NODE, POD, Cluster, compute_domain_manifest, condition,
    wait_until,
)

NAMESPACE_NAME = "demo"
DOMAINS = ("red", "blue")
PAINT = {"red": "\033[31m", "blue": "\033[34m"} if sys.stdout.isatty() else {}
PLAIN = "\033[0m" if sys.stdout.isatty() else ""


def say(text: str = "") -> None:
    print(text, flush=True)


def step(title: str) -> None:
    say(f"\n── {title}")


def paint(domain: str, text: str) -> str:
    return f"{PAINT.get(domain, '')}{text}{PLAIN}"


def template_of(domain: str) -> str:
    return f"{domain}-channel"


def plan_members(nodes: list[str]) -> list[Member]:
    """One pod of each ComputeDomain on every node, and a second one of red on the first."""
    members = [Member(domain, f"{domain}-{number}", node) for domain in DOMAINS for number, node in enumerate(nodes, start=1)]
    return [*members, Member("red", f"red-{len(nodes) + 1}", nodes[0])]


def start(cluster: Cluster, members: list[Member]) -> None:
    step(f"ComputeDomains {' and '.join(DOMAINS)}, pods of both on the same nodes")
    if not cluster.find(NAMESPACE, NAMESPACE_NAME):
        cluster.create(NAMESPACE, {"metadata": {"name": NAMESPACE_NAME}})
    began = time.monotonic()
    for domain in DOMAINS:
        cluster.create(COMPUTE_DOMAIN, compute_domain_manifest(domain), NAMESPACE_NAME)
    for member in members:
        cluster.create(POD, workload.exporter(member, template_of(member.domain)), NAMESPACE_NAME)
    workload.wait_running(cluster, [m.pod for m in members], NAMESPACE_NAME)
    say(f"{len(members)} pods run {time.monotonic() - began:.1f} s after the first ComputeDomain was created")


def show_status(cluster: Cluster, members: list[Member]) -> None:
    expected = {d: len({m.node for m in members if m.domain == d}) for d in DOMAINS}

    def ready() -> bool:
        return all(cluster.get(COMPUTE_DOMAIN, d, NAMESPACE_NAME).get("status", {}).get("nodeSummary", {}).get("ready") == expected[d]
                   for d in DOMAINS)

    wait_until(ready, "both ComputeDomains report all nodes ready", 30)
    say(f"{'COMPUTEDOMAIN':15} {'READY':8} {'NODES':7} PARTITIONS")
    for domain in DOMAINS:
        status = cluster.get(COMPUTE_DOMAIN, domain, NAMESPACE_NAME)["status"]
        partitions = ", ".join(f"{p['cliqueID']} channel {p['channel']}" for p in status["partitions"])
        summary = status["nodeSummary"]
        state = condition({"status": status}, "Ready").get("status", "?")
        say(paint(domain, f"{domain:15} {state:8} {summary['ready']}/{summary['total']:<5} {partitions}"))


def show_channels(members: list[Member]) -> dict[str, int]:
    """Prints who holds what and returns each domain's channel after checking that it is one, everywhere, and nobody else's."""
    step("which pod holds which channel where")
    held: dict[str, set[int]] = {domain: set() for domain in DOMAINS}
    say(f"{'NODE':12} {'POD':12} CHANNEL DEVICES")
    for member in sorted(members, key=lambda m: (m.node, m.domain, m.pod)):
        channels = workload.channels_of(member.pod, NAMESPACE_NAME)
        assert len(channels) == 1, f"{member.pod} holds {channels}, not exactly one channel"
        held[member.domain].update(channels)
        say(paint(member.domain, f"{member.node:12} {member.pod:12} {workload.CHANNEL_DIR}/channel{channels[0]}"))
    assert all(len(channels) == 1 for channels in held.values()), f"a ComputeDomain has several channels: {held}"
    numbers = {domain: channels.pop() for domain, channels in held.items()}
    assert len(set(numbers.values())) == len(DOMAINS) and min(numbers.values()) >= 1, f"channels are not distinct and >= 1: {numbers}"
    return numbers


def refusal(stderr: str) -> str:
    """What the program said, without what kubectl adds to it."""
    return " ".join(line for line in stderr.splitlines() if not line.startswith("command terminated"))


def show_import(importer: Member, exporter: Member, handle: str, granted: bool, note: str = "") -> None:
    result = workload.import_memory(importer.pod, handle, NAMESPACE_NAME)
    outcome = result.stdout.strip() if result.returncode == 0 else refusal(result.stderr)
    say(paint(importer.domain, f"{importer.pod} on {importer.node} imports {exporter.pod} on {exporter.node}{note}: ") + outcome)
    assert (result.returncode == 0) == granted, f"expected {'success' if granted else 'a refusal'}, got {result}"
    assert not granted or exporter.memory in result.stdout


def show_sharing(cluster: Cluster, members: list[Member], channels: dict[str, int]) -> None:
    step("who can import whose memory")
    red = [m for m in members if m.domain == "red"]
    blue = [m for m in members if m.domain == "blue"]
    handles = {m: workload.handle_of(cluster, m.pod, NAMESPACE_NAME) for m in (red[0], red[1], blue[1])}
    show_import(red[1], red[0], handles[red[0]], granted=True)
    show_import(red[0], red[1], handles[red[1]], granted=True)
    show_import(blue[0], blue[1], handles[blue[1]], granted=True)
    show_import(blue[1], red[0], handles[red[0]], granted=False)
    forged = workload.forge_device_node(blue[1].pod, channels["red"], NAMESPACE_NAME)
    assert forged.returncode == 0, f"mknod failed: {forged.stderr}"
    say(paint("blue", f"{blue[1].pod} makes itself the device node of channel {channels['red']} (red's)"))
    result = workload.import_memory(blue[1].pod, handles[red[0]], NAMESPACE_NAME, "--channel", str(channels["red"]))
    assert result.returncode != 0, "a forged device node must grant nothing"
    say(paint("blue", f"{blue[1].pod} imports {red[0].pod} through it: ") + refusal(result.stderr))


def leftovers(cluster: Cluster) -> list[str]:
    """Everything of the demo's ComputeDomains that still exists."""
    left = [f"{kind.kind} {o['metadata']['name']}" for kind in (COMPUTE_DOMAIN, POD, CLAIM, CLAIM_TEMPLATE)
            for o in cluster.list(kind, NAMESPACE_NAME)]
    for domain in cluster.list(IMEX_DOMAIN):
        left += [f"lease of channel {lease['channel']}" for lease in domain["spec"].get("channels", [])
                 if lease["computeDomain"]["namespace"] == NAMESPACE_NAME]
    for node in cluster.list(IMEX_NODE):
        left += [f"channel {c['channel']} on {node['metadata']['name']}" for c in node.get("status", {}).get("channels", [])]
    return left


def delete_all(cluster: Cluster) -> None:
    for pod in cluster.list(POD, NAMESPACE_NAME):
        cluster.delete(POD, pod["metadata"]["name"], NAMESPACE_NAME)
    for domain in cluster.list(COMPUTE_DOMAIN, NAMESPACE_NAME):
        cluster.delete(COMPUTE_DOMAIN, domain["metadata"]["name"], NAMESPACE_NAME)
    wait_until(lambda: not leftovers(cluster), "nothing of the ComputeDomains is left", 60)


def main() -> int:
    cluster = Cluster("demo")
    nodes = sorted(n["metadata"]["name"] for n in cluster.list(NODE))
    assert len(nodes) >= 2, f"the demo needs at least two nodes, the lab has {nodes}"
    if leftovers(cluster):
        say("removing what an earlier demo left")
        delete_all(cluster)
    members = plan_members(nodes)
    start(cluster, members)
    show_status(cluster, members)
    channels = show_channels(members)
    show_sharing(cluster, members, channels)
    step("deletion")
    began = time.monotonic()
    delete_all(cluster)
    say(f"pods, ComputeDomains, claim templates, leases and channels are gone after {time.monotonic() - began:.1f} s")
    domains = cluster.list(IMEX_DOMAIN)
    leases = sum(len(domain["spec"].get("channels", [])) for domain in domains)
    say(f"{', '.join(domain['metadata']['name'] for domain in domains)} stays, with {leases} leases: its daemons are warm for the next one")
    step("the cluster stays up to play with")
    say("lab/lab kubectl get computedomains,imexdomains,imexnodes -A\nlab/lab kubectl explain computedomain.spec\nlab/lab status\nmake lab-down")
    return 0


if __name__ == "__main__":
    sys.exit(main())
