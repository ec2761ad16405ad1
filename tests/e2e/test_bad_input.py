"""Wrong claims: one readable error in the pod's events, nothing written, and the pod can be deleted."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from demo import workload
from lab.client import (
    CLAIM, CLAIM_TEMPLATE, COMPUTE_DOMAIN, EVENT, NAMESPACE, POD, POLICY, POLICY_BINDING, QUOTA, Cluster, Object, compute_domain_manifest,
    condition, pod_manifest, wait_until,
)

from .conftest import leases, reported_channels


def claim(name: str, parameters: Object) -> Object:
    """A claim made by hand, with whatever opaque parameters."""
    return {"metadata": {"name": name}, "spec": {"devices": {
        "requests": [{"name": "channel", "exactly": {"deviceClassName": "compute-domain-default-channel.nvidia.com"}}],
        "config": [{"requests": ["channel"], "opaque": {"driver": "compute-domain.nvidia.com", "parameters": parameters}}]}}}


def channel_config(domain: Any, **fields: Any) -> Object:
    return {"apiVersion": "resource.nvidia.com/v1beta1", "kind": "ComputeDomainChannelConfig", "domainID": domain, **fields}


def pod_with_claim(name: str, node: str) -> Object:
    pod = pod_manifest(name, node)
    pod["spec"]["resourceClaims"] = [{"name": "channel", "resourceClaimName": name}]
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "channel"}]}
    return pod


def events_of(cluster: Cluster, pod: str, namespace: str) -> str:
    return "\n".join(e["message"] for e in cluster.list(EVENT, namespace, fieldSelector=f"involvedObject.name={pod}"))


BAD = {
    "unknown-domain": (channel_config(str(uuid.uuid4())), ["domainID"]),
    "path-like-domain": (channel_config("../../etc"), ["domainID", "../../etc"]),
    "unknown-field": (channel_config(str(uuid.uuid4()), numNodes=2), ["numNodes"]),
    "wrong-case-mode": (channel_config(str(uuid.uuid4()), allocationMode="all"), ["allocationMode", "all"]),
    "wrong-kind": ({**channel_config(str(uuid.uuid4())), "kind": "ComputeDomainChannel"}, ["ComputeDomainChannel"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_config_is_refused_in_the_pods_events(cluster: Cluster, nodes: list[str], namespace: str, case: str) -> None:
    parameters, words = BAD[case]
    refuse(cluster, nodes[0], namespace, case, parameters, words)


def test_domain_of_another_namespace_is_refused(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    other = f"{namespace}-other"
    cluster.create(NAMESPACE, {"metadata": {"name": other}})
    try:
        domain = cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("theirs"), other)
        refuse(cluster, nodes[0], namespace, "foreign", channel_config(domain["metadata"]["uid"]), ["domainID", "namespace"])
        assert reported_channels(cluster, domain["metadata"]["uid"]) == {}
    finally:
        cluster.delete(COMPUTE_DOMAIN, "theirs", other)
        cluster.delete(NAMESPACE, other)


def test_valid_mode_that_is_not_the_domains_is_refused_naming_both(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    domain = cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    config = channel_config(domain["metadata"]["uid"], allocationMode="All")
    refuse(cluster, nodes[0], namespace, "mode", config, ["allocationMode", "All", "Single"])


def test_hand_made_claim_without_labels_is_served(cluster: Cluster, nodes: list[str], namespace: str) -> None:
    domain = cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)
    cluster.create(CLAIM, claim("own", channel_config(domain["metadata"]["uid"], allocationMode="Single")), namespace)
    cluster.create(POD, pod_with_claim("own", nodes[0]), namespace)
    workload.wait_running(cluster, ["own"], namespace)
    assert len(workload.channels_of("own", namespace)) == 1


def test_quota_that_forbids_the_template_is_told_and_its_end_is_noticed(cluster: Cluster, namespace: str) -> None:
    quota = {"metadata": {"name": "no-templates"}, "spec": {"hard": {"count/resourceclaimtemplates.resource.k8s.io": "0"}}}
    cluster.create(QUOTA, quota, namespace)
    wait_until(lambda: cluster.get(QUOTA, "no-templates", namespace).get("status", {}).get("hard"), "the quota in force", 30)
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("red"), namespace)

    def accepted() -> Object:
        return condition(cluster.get(COMPUTE_DOMAIN, "red", namespace), "Accepted")

    wait_until(lambda: accepted().get("reason") == "TemplateRefused", "the refusal in the status", 20)
    assert all(word in accepted()["message"] for word in ("red-channel", "no-templates"))
    wait_until(lambda: "no-templates" in events_of(cluster, "red", namespace), "the refusal in an event", 20)
    cluster.create(COMPUTE_DOMAIN, compute_domain_manifest("gone"), namespace)
    cluster.delete(COMPUTE_DOMAIN, "gone", namespace)
    wait_until(lambda: not cluster.find(COMPUTE_DOMAIN, "gone", namespace), "a refused ComputeDomain deletable", 20)

    cluster.delete(QUOTA, "no-templates", namespace)
    wait_until(lambda: cluster.find(CLAIM_TEMPLATE, "red-channel", namespace), "the template, once it is allowed", 60)
    wait_until(lambda: accepted()["status"] == "True", "the ComputeDomain accepted", 20)


@contextmanager
def admission_policy(cluster: Cluster, namespace: str, resource: str, expression: str) -> Iterator[str]:
    """The name of a policy that holds updates in the namespace to an expression; it comes into force a moment later."""
    name = f"{namespace}-house-rules"
    rule = {"apiGroups": ["resource.nvidia.com"], "apiVersions": ["*"], "resources": [resource], "operations": ["UPDATE"]}
    cluster.create(POLICY, {"metadata": {"name": name}, "spec": {
        "matchConstraints": {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}, "resourceRules": [rule]},
        "validations": [{"expression": expression}]}})
    cluster.create(POLICY_BINDING, {"metadata": {"name": name}, "spec": {"policyName": name, "validationActions": ["Deny"]}})
    try:
        yield name
    finally:
        cluster.delete(POLICY_BINDING, name)
        cluster.delete(POLICY, name)


REFUSED_WRITES = {
    "FinalizerRefused": ("computedomains", "size(object.metadata.?finalizers.orValue([])) == 0"),
    "StatusRefused": ("computedomains/status", "false"),
}


@pytest.mark.parametrize("reason", REFUSED_WRITES)
def test_admission_policy_that_forbids_a_write_is_told_and_its_end_is_noticed(cluster: Cluster, namespace: str, reason: str) -> None:
    names = (f"red-{number}" for number in itertools.count(1))

    def refused() -> str:
        """Of those created before the policy was in force nothing is told."""
        red = next(names)
        cluster.create(COMPUTE_DOMAIN, compute_domain_manifest(red), namespace)
        wait_until(lambda: condition(cluster.get(COMPUTE_DOMAIN, red, namespace), "Accepted") or events_of(cluster, red, namespace),
                   f"something said of {red}", 20)
        return red if events_of(cluster, red, namespace) else ""

    def accepted() -> Object:
        return condition(cluster.get(COMPUTE_DOMAIN, red, namespace), "Accepted")

    with admission_policy(cluster, namespace, *REFUSED_WRITES[reason]) as policy:
        red = wait_until(refused, "a ComputeDomain refused", 60)
        assert policy in events_of(cluster, red, namespace)
        assert {e["reason"] for e in cluster.list(EVENT, namespace, fieldSelector=f"involvedObject.name={red}")} == {reason}
        if reason == "FinalizerRefused":
            assert accepted()["reason"] == reason and policy in accepted()["message"]
            assert not cluster.find(CLAIM_TEMPLATE, f"{red}-channel", namespace)
    wait_until(lambda: accepted().get("status") == "True", f"{red} accepted", 30)
    wait_until(lambda: cluster.find(CLAIM_TEMPLATE, f"{red}-channel", namespace), "its template", 20)


def refuse(cluster: Cluster, node: str, namespace: str, name: str, parameters: Object, words: list[str]) -> None:
    """A pod with such a claim gets an event with all `words`; nothing is leased; pod and claim can be deleted."""
    cluster.create(CLAIM, claim(name, parameters), namespace)
    cluster.create(POD, pod_with_claim(name, node), namespace)

    def told() -> bool:
        text = events_of(cluster, name, namespace)
        return all(word in text for word in words)

    wait_until(told, f"an event of pod {name} that says {words}", 30)
    text = events_of(cluster, name, namespace)
    assert all(word in text for word in words), text
    assert not [lease for lease in leases(cluster, namespace) if lease["computeDomain"]["uid"] == parameters.get("domainID")]
    cluster.delete(POD, name, namespace)
    cluster.delete(CLAIM, name, namespace)
    wait_until(lambda: not cluster.find(POD, name, namespace), f"pod {name} gone: Unprepare succeeds", 60)
    wait_until(lambda: not cluster.find(CLAIM, name, namespace), f"claim {name} gone", 30)
