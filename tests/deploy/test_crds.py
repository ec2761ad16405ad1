"""The CRDs on a real API server: what they accept, fill in and refuse, and with which words."""

from __future__ import annotations

import copy
import itertools

import pytest

from tests.deploy.apiserver import Answer, ApiServer, Object

DOMAINS = "/apis/resource.nvidia.com/v1beta2/namespaces/default/computedomains"
IMEX_DOMAINS = "/apis/resource.nvidia.com/v1alpha1/imexdomains"
IMEX_NODES = "/apis/resource.nvidia.com/v1alpha1/imexnodes"
OWNER = {"namespace": "default", "name": "red", "uid": "0f3c6c3e-5f7e-4b6c-9d27-1d9f8f0f9a11"}
_numbers = itertools.count(1)


def compute_domain(**spec: object) -> Object:
    name = f"cd-{next(_numbers)}"
    channel = {"resourceClaimTemplate": {"name": f"{name}-channel"}}
    return {"apiVersion": "resource.nvidia.com/v1beta2", "kind": "ComputeDomain", "metadata": {"name": name},
            "spec": {"channel": channel, **spec}}


def imex_domain(**spec: object) -> Object:
    return {"apiVersion": "resource.nvidia.com/v1alpha1", "kind": "IMEXDomain", "metadata": {"name": f"domain-{next(_numbers)}"},
            "spec": {"cliqueID": "a6b8b8a2-1c1f-4a36-8f0e-0c8c7a0b0001.1", "mode": "Shared", "nodeSlots": 24, "imexConfig": {}, "members": [],
                     "channels": [], "nextChannel": 1, "refusals": [], **spec}}


def lease(channel: int, **changes: object) -> Object:
    return {"channel": channel, "computeDomain": OWNER, "state": "Active", "released": True, **changes}


def created(api: ApiServer, path: str, body: Object) -> Object:
    answer = api.create(f"{path}?fieldValidation=Strict", body)
    assert answer.ok, answer.message
    return answer.body


def changed(api: ApiServer, path: str, obj: Object, **spec: object) -> Answer:
    body = copy.deepcopy(obj)
    body["spec"].update(spec)
    return api.replace(f"{path}/{obj['metadata']['name']}", body)


# --- ComputeDomain


def test_the_shortest_compute_domain_gets_the_safe_defaults(api: ApiServer) -> None:
    spec = created(api, DOMAINS, compute_domain())["spec"]
    assert spec["channel"]["allocationMode"] == "Single"
    assert (spec["isolationMode"], spec["partitionPolicy"], spec["fabricPolicy"]) == ("Channel", "Any", "Required")
    assert "gating" not in spec and "imex" not in spec


def test_gating_fills_in_its_times(api: ApiServer) -> None:
    spec = created(api, DOMAINS, compute_domain(gating={"minNodes": 4}))["spec"]
    assert spec["gating"] == {"minNodes": 4, "settleSeconds": 5, "timeoutSeconds": 600, "onTimeout": "Fail"}


def test_every_field_at_once(api: ApiServer) -> None:
    created(api, DOMAINS, compute_domain(
        channel={"resourceClaimTemplate": {"name": "a.b-c"}, "allocationMode": "All"}, isolationMode="Domain", partitionPolicy="Single",
        fabricPolicy="Optional", gating={"onTimeout": "Release"}, imex={"waitForQuorum": "FULL", "nodeDisconnectedGraceSeconds": -1, "logLevel": 4}))


@pytest.mark.parametrize(("spec", "words"), [
    ({"channel": {"resourceClaimTemplate": {"name": "x"}, "allocationMode": "All"}},
     ["spec.channel.allocationMode", "All takes every channel of an IMEX domain", "set isolationMode to Domain, or allocationMode to Single"]),
    ({"imex": {"logLevel": 1}}, ["spec.imex", "a shared IMEX domain takes its settings from the cluster: remove imex, or set isolationMode to Domain"]),
    ({"channel": {"resourceClaimTemplate": {"name": "Red_Channel"}}}, ["spec.channel.resourceClaimTemplate.name", "must be a DNS subdomain name"]),
    ({"channel": {"resourceClaimTemplate": {"name": "../x"}}}, ["spec.channel.resourceClaimTemplate.name", "DNS subdomain name"]),
    ({"channel": {"resourceClaimTemplate": {"name": ""}}}, ["spec.channel.resourceClaimTemplate.name"]),
    ({"channel": {"resourceClaimTemplate": {"name": "x" * 254}}}, ["spec.channel.resourceClaimTemplate.name", "253"]),
    ({"channel": {}}, ["spec.channel.resourceClaimTemplate", "Required"]),
    ({"isolationMode": "domain"}, ["spec.isolationMode", '"Channel", "Domain"']),
    ({"partitionPolicy": "Two"}, ["spec.partitionPolicy", '"Any", "Single"']),
    ({"fabricPolicy": ""}, ["spec.fabricPolicy", '"Required", "Optional"']),
    ({"gating": {"minNodes": 0}}, ["spec.gating.minNodes", "greater than or equal to 1"]),
    ({"gating": {"timeoutSeconds": 0}}, ["spec.gating.timeoutSeconds"]),
    ({"gating": {"onTimeout": "Wait"}}, ["spec.gating.onTimeout", '"Fail", "Release"']),
    ({"isolationMode": "Domain", "imex": {"waitForQuorum": "SOME"}}, ["spec.imex.waitForQuorum"]),
    ({"isolationMode": "Domain", "imex": {"logLevel": 5}}, ["spec.imex.logLevel"]),
])
def test_a_wrong_wish_is_refused_at_its_field(api: ApiServer, spec: Object, words: list[str]) -> None:
    answer = api.create(DOMAINS, compute_domain(**spec))
    assert answer.status == 422
    assert all(word in answer.message for word in words), answer.message


def test_an_unknown_field_is_refused_by_strict_clients(api: ApiServer) -> None:
    answer = api.create(f"{DOMAINS}?fieldValidation=Strict", compute_domain(numNodes=2))
    assert answer.status == 400 and 'unknown field "spec.numNodes"' in answer.message


@pytest.mark.parametrize(("field", "value"), [
    ("channel", {"resourceClaimTemplate": {"name": "other"}, "allocationMode": "Single"}),
    ("channel", {"resourceClaimTemplate": {"name": "own"}, "allocationMode": "All"}),
    ("isolationMode", "Channel"),
    ("partitionPolicy", "Single"),
    ("fabricPolicy", "Optional"),
    ("imex", {"logLevel": 2}),
])
def test_a_field_that_is_fixed_at_creation_says_so(api: ApiServer, field: str, value: object) -> None:
    channel = {"resourceClaimTemplate": {"name": "own"}, "allocationMode": "Single"}
    old = created(api, DOMAINS, compute_domain(channel=channel, isolationMode="Domain", imex={"logLevel": 1}))
    answer = changed(api, DOMAINS, old, **{field: value})
    assert answer.status == 422
    assert f"spec.{field}" in answer.message and f"{field} is fixed at creation: delete the ComputeDomain and create it anew" in answer.message


def test_imex_settings_are_neither_added_nor_removed_later(api: ApiServer) -> None:
    without = created(api, DOMAINS, compute_domain(isolationMode="Domain"))
    assert "imex is fixed at creation" in changed(api, DOMAINS, without, imex={"logLevel": 1}).message
    with_it = created(api, DOMAINS, compute_domain(isolationMode="Domain", imex={"logLevel": 1}))
    del with_it["spec"]["imex"]
    assert "imex is fixed at creation" in changed(api, DOMAINS, with_it).message


def test_gating_is_added_edited_and_removed_at_any_time(api: ApiServer) -> None:
    obj = created(api, DOMAINS, compute_domain())
    for gating in ({"minNodes": 2}, {"minNodes": 3, "onTimeout": "Release"}):
        answer = changed(api, DOMAINS, obj, gating=gating)
        assert answer.ok and answer.body["spec"]["gating"]["minNodes"] == gating["minNodes"], answer.message
        obj = answer.body
    del obj["spec"]["gating"]
    answer = changed(api, DOMAINS, obj)
    assert answer.ok and "gating" not in answer.body["spec"]


def test_status_is_a_subresource_and_keeps_every_field(api: ApiServer) -> None:
    obj = created(api, DOMAINS, compute_domain())
    obj["status"] = {
        "observedGeneration": 1,
        "conditions": [{"type": "Ready", "status": "True", "reason": "AllNodesReady", "message": "", "observedGeneration": 1,
                        "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "nodeSummary": {"total": 2, "ready": 2},
        "partitions": [{"cliqueID": "u.1", "imexDomain": "u.1", "channel": 1, "nodes": 2, "readyNodes": 2}],
        "members": [{"node": "n", "cliqueID": "u.1", "address": "10.0.0.1", "index": 0, "ready": True}],
    }
    path = f"{DOMAINS}/{obj['metadata']['name']}"
    ignored = api.replace(path, obj)
    assert ignored.ok and "status" not in ignored.body
    obj["metadata"] = ignored.body["metadata"]
    written = api.replace(f"{path}/status?fieldValidation=Strict", obj)
    assert written.ok and written.body["status"] == obj["status"], written.message


def test_status_lists_are_bounded(api: ApiServer) -> None:
    obj = created(api, DOMAINS, compute_domain())
    obj["status"] = {"members": [{"node": f"n{i}"} for i in range(145)]}
    answer = api.replace(f"{DOMAINS}/{obj['metadata']['name']}/status", obj)
    assert answer.status == 422 and "status.members" in answer.message and "144" in answer.message


def test_short_name_and_descriptions_are_served(api: ApiServer) -> None:
    resources = api.get("/apis/resource.nvidia.com/v1beta2").body["resources"]
    (domain,) = [r for r in resources if r["name"] == "computedomains"]
    assert domain["shortNames"] == ["cd"] and domain["namespaced"] is True
    assert {r["name"] for r in resources} == {"computedomains", "computedomains/status"}


# --- IMEXDomain


def test_an_imex_domain_grows_and_shrinks(api: ApiServer) -> None:
    obj = created(api, IMEX_DOMAINS, imex_domain())
    member = {"index": 23, "node": "n", "address": "", "bootID": ""}
    grown = changed(api, IMEX_DOMAINS, obj, members=[member], channels=[lease(1), lease(2, state="Draining", released=False)], nextChannel=3)
    assert grown.ok, grown.message
    assert changed(api, IMEX_DOMAINS, grown.body, members=[], channels=[]).ok


@pytest.mark.parametrize(("spec", "words"), [
    ({"channels": [lease(5), lease(5)]}, ["spec.channels[1]", "Duplicate"]),
    ({"channels": [lease(0)]}, ["spec.channels[0].channel", "greater than or equal to 1"]),
    ({"channels": [lease(1 << 20)]}, ["spec.channels[0].channel"]),
    ({"channels": [lease(1, state="Free")]}, ["spec.channels[0].state"]),
    ({"channels": [lease(1, computeDomain={"namespace": "a", "name": "b"})]}, ["spec.channels[0].computeDomain.uid"]),
    ({"members": [{"index": 3, "node": "a"}, {"index": 3, "node": "b"}]}, ["spec.members[1]", "Duplicate"]),
    ({"members": [{"index": 24, "node": "a"}]}, ["less than nodeSlots"]),
    ({"mode": "Exclusive"}, ["computeDomain names the owner"]),
    ({"mode": "Shared", "computeDomain": OWNER}, ["computeDomain names the owner"]),
    ({"nodeSlots": 0}, ["spec.nodeSlots"]),
    ({"nodeSlots": 257}, ["spec.nodeSlots"]),
])
def test_an_imex_domain_that_breaks_a_rule_cannot_be_written(api: ApiServer, spec: Object, words: list[str]) -> None:
    answer = api.create(IMEX_DOMAINS, imex_domain(**spec))
    assert answer.status == 422
    assert all(word in answer.message for word in words), answer.message


@pytest.mark.parametrize(("field", "value"), [
    ("cliqueID", "other.1"), ("mode", "Shared"), ("nodeSlots", 18), ("imexConfig", {"logLevel": 1}), ("computeDomain", {**OWNER, "uid": "other"}),
])
def test_what_daemons_were_started_with_never_changes(api: ApiServer, field: str, value: object) -> None:
    old = created(api, IMEX_DOMAINS, imex_domain(mode="Exclusive", computeDomain=OWNER))
    answer = changed(api, IMEX_DOMAINS, old, **{field: value})
    assert answer.status == 422 and f"{field}" in answer.message and "fixed for the life of an IMEXDomain" in answer.message


def test_a_member_keeps_its_index_and_makes_room_only_by_leaving(api: ApiServer) -> None:
    two = [{"index": 0, "node": "a"}, {"index": 1, "node": "b"}]
    old = created(api, IMEX_DOMAINS, imex_domain(members=two))
    for moved in ([{"index": 2, "node": "a"}, two[1]], [{"index": 1, "node": "a"}, {"index": 0, "node": "b"}]):
        answer = changed(api, IMEX_DOMAINS, old, members=moved)
        assert answer.status == 422 and "the index of a member is fixed" in answer.message, answer.message
    assert changed(api, IMEX_DOMAINS, old, members=[{"index": 0, "node": "c"}, two[1]]).ok


def test_a_channel_passes_to_another_owner_only_from_draining(api: ApiServer) -> None:
    old = created(api, IMEX_DOMAINS, imex_domain(channels=[lease(1), lease(2, state="Draining")]))
    other = {**OWNER, "uid": "other"}
    answer = changed(api, IMEX_DOMAINS, old, channels=[lease(1, computeDomain=other), lease(2, state="Draining")])
    assert answer.status == 422 and "only from Draining" in answer.message, answer.message
    assert changed(api, IMEX_DOMAINS, old, channels=[lease(1), lease(2, computeDomain=other)]).ok


def test_the_largest_imex_domain_fits(api: ApiServer) -> None:
    """The list maxima are reachable: a full object is below the API server's limit of a request."""
    name = "x" * 253
    members = [{"index": i, "node": f"node-{i}.{'y' * 60}", "address": "10.10.10.10", "bootID": OWNER["uid"]} for i in range(256)]
    owner = {**OWNER, "namespace": "n" * 63, "name": name}
    channels = [lease(i + 1, computeDomain=owner) for i in range(2048)]
    created(api, IMEX_DOMAINS, imex_domain(nodeSlots=256, members=members, channels=channels))


# --- IMEXNode


def test_spec_and_status_of_an_imex_node_have_one_writer_each(api: ApiServer) -> None:
    obj = created(api, IMEX_NODES, {"apiVersion": "resource.nvidia.com/v1alpha1", "kind": "IMEXNode", "metadata": {"name": "node-one-writer"}})
    path = f"{IMEX_NODES}/node-one-writer"
    obj["spec"] = {"domain": {"name": "u.1", "uid": "d", "index": 0}, "refusals": [{"computeDomainUID": "x", "reason": "NoFabric", "message": "m"}]}
    status = {
        "bootID": "b", "driverVersion": "580.105.08", "fabric": {"state": "Ready", "cliqueIDs": ["u.1"], "message": ""},
        "daemon": {"address": "10.0.0.1", "instance": "i", "domain": "c.1", "domainUID": "d", "index": -1, "state": "Starting", "connected": [1, 2]},
        "channels": [{"domainUID": "d", "channel": 1, "computeDomainUID": "x"}],
    }
    by_controller = api.replace(f"{path}?fieldValidation=Strict", {**obj, "status": status})
    assert by_controller.ok and "status" not in by_controller.body
    by_plugin = api.replace(f"{path}/status?fieldValidation=Strict", {**by_controller.body, "spec": {}, "status": status})
    assert by_plugin.ok and by_plugin.body["status"] == status and by_plugin.body["spec"] == obj["spec"]


def test_the_longest_driver_version_of_nvml_fits(api: ApiServer) -> None:
    obj = created(api, IMEX_NODES, {"apiVersion": "resource.nvidia.com/v1alpha1", "kind": "IMEXNode", "metadata": {"name": "node-long-version"}})
    answer = api.replace(f"{IMEX_NODES}/node-long-version/status", {**obj, "status": {"driverVersion": "5" * 95}})
    assert answer.ok, answer.message


@pytest.mark.parametrize(("status", "words"), [
    ({"fabric": {"state": "Good"}}, ["status.fabric.state"]),
    ({"daemon": {"state": "ready"}}, ["status.daemon.state"]),
    ({"daemon": {"connected": [1, 1]}}, ["status.daemon.connected[1]", "Duplicate"]),
    ({"channels": [{"domainUID": "d", "channel": -1, "computeDomainUID": "x"}]}, ["status.channels[0].channel"]),
    ({"fabric": {"message": "m" * 2049}}, ["status.fabric.message"]),
])
def test_a_status_out_of_bounds_is_refused(api: ApiServer, status: Object, words: list[str]) -> None:
    name = f"node-{next(_numbers)}"
    obj = created(api, IMEX_NODES, {"apiVersion": "resource.nvidia.com/v1alpha1", "kind": "IMEXNode", "metadata": {"name": name}})
    answer = api.replace(f"{IMEX_NODES}/{name}/status", {**obj, "status": status})
    assert answer.status == 422 and all(word in answer.message for word in words), answer.message


# --- what kubectl get shows


def columns(api: ApiServer, path: str, name: str) -> dict[str, object]:
    table = api.get_table(f"{path}/{name}")
    return dict(zip((c["name"] for c in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))


def test_the_list_of_compute_domains_says_whether_they_are_ready(api: ApiServer) -> None:
    obj = created(api, DOMAINS, compute_domain())
    ready = {"type": "Ready", "status": "False", "reason": "NodesNotReady", "message": "1 of 2", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    obj["status"] = {"conditions": [ready], "nodeSummary": {"total": 2, "ready": 1}}
    assert api.replace(f"{DOMAINS}/{obj['metadata']['name']}/status", obj).ok
    shown = columns(api, DOMAINS, obj["metadata"]["name"])
    assert (shown["Isolation"], shown["Nodes"], shown["Ready-Nodes"], shown["Ready"], shown["Reason"]) == ("Channel", 2, 1, "False", "NodesNotReady")


def test_the_list_of_nodes_says_which_have_a_fabric_and_a_daemon(api: ApiServer) -> None:
    name = f"node-{next(_numbers)}"
    obj = created(api, IMEX_NODES, {"apiVersion": "resource.nvidia.com/v1alpha1", "kind": "IMEXNode", "metadata": {"name": name}})
    obj["status"] = {"fabric": {"state": "Ready", "cliqueIDs": ["u.1"]}, "daemon": {"state": "Starting"}}
    assert api.replace(f"{IMEX_NODES}/{name}/status", obj).ok
    shown = columns(api, IMEX_NODES, name)
    assert (shown["Fabric"], shown["Clique"], shown["Daemon"]) == ("Ready", "u.1", "Starting")
