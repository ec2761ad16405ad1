"""Roles and admission policies on a real API server: each agent writes what is its own, and nothing of another node."""

from __future__ import annotations

import itertools

import pytest

from tests.deploy.apiserver import Answer, ApiServer, Identity, Object
from tests.deploy.conftest import IMEX_NODES, SLICES, pod, slice_of
from tests.deploy.helm import CHART, NAMESPACE, Helm

PODS = "/api/v1/namespaces/default/pods"
_numbers = itertools.count(1)


def plugin(node: str) -> Identity:
    return Identity.service_account(NAMESPACE, "compute-domain-kubelet-plugin", node)


CONTROLLER = Identity.service_account(NAMESPACE, "compute-domain-controller")
UNBOUND = Identity.service_account(NAMESPACE, "compute-domain-kubelet-plugin")


@pytest.fixture
def node(installed: ApiServer) -> Object:
    """A Node of the test's own."""
    labels = {"kubernetes.io/arch": "arm64", "topology": "rack-1"}
    answer = installed.create("/api/v1/nodes", {"metadata": {"name": f"node-{next(_numbers)}", "labels": labels, "annotations": {"a": "b"}}})
    assert answer.ok, answer.message
    return answer.body


def name_of(obj: Object) -> str:
    return obj["metadata"]["name"]


def imex_node(node: Object, **fields: object) -> Object:
    owner = {"apiVersion": "v1", "kind": "Node", "name": name_of(node), "uid": node["metadata"]["uid"]}
    return {"apiVersion": "resource.nvidia.com/v1alpha1", "kind": "IMEXNode",
            "metadata": {"name": name_of(node), "ownerReferences": [owner]}, **fields}


def refused_by_policy(answer: Answer, words: str) -> bool:
    return answer.status in (403, 422) and "ValidatingAdmissionPolicy" in answer.message and words in answer.message


def refused_by_role(answer: Answer) -> bool:
    return answer.status == 403 and "ValidatingAdmissionPolicy" not in answer.message


# --- IMEXNode


def test_a_plugin_creates_its_node_and_reports_on_it(installed: ApiServer, node: Object) -> None:
    made = installed.create(IMEX_NODES, imex_node(node, spec={}), plugin(name_of(node)))
    assert made.ok, made.message
    assert installed.patch(f"{IMEX_NODES}/{name_of(node)}/status", {"status": {"driverVersion": "580"}}, plugin(name_of(node))).ok


def test_a_plugin_may_not_create_or_report_for_another_node(installed: ApiServer, node: Object) -> None:
    foreign = plugin("some-other-node")
    words = f"the kubelet plugin of node some-other-node may not write the IMEXNode of node {name_of(node)}"
    assert refused_by_policy(installed.create(IMEX_NODES, imex_node(node), foreign), words)
    assert installed.create(IMEX_NODES, imex_node(node), plugin(name_of(node))).ok
    assert refused_by_policy(installed.patch(f"{IMEX_NODES}/{name_of(node)}/status", {"status": {"bootID": "x"}}, foreign), words)


def test_a_plugin_token_that_names_no_node_writes_nothing(installed: ApiServer, node: Object) -> None:
    assert refused_by_policy(installed.create(IMEX_NODES, imex_node(node), UNBOUND), "names no node")
    assert refused_by_policy(installed.create(SLICES, slice_of(name_of(node)), UNBOUND), "names no node")
    assert refused_by_policy(installed.patch(f"/api/v1/nodes/{name_of(node)}", {"metadata": {"labels": {"nvidia.com/gpu.clique": "u.1"}}}, UNBOUND),
                             "names no node")


def test_a_plugin_does_not_assign_itself_a_domain(installed: ApiServer, node: Object) -> None:
    domain = {"domain": {"name": "u.1", "uid": "d", "index": 0}}
    assert refused_by_policy(installed.create(IMEX_NODES, imex_node(node, spec=domain), plugin(name_of(node))), "empty spec")
    assert installed.create(IMEX_NODES, imex_node(node), plugin(name_of(node))).ok
    assert refused_by_role(installed.patch(f"{IMEX_NODES}/{name_of(node)}", {"spec": domain}, plugin(name_of(node))))


def test_an_imex_node_goes_with_its_node(installed: ApiServer, node: Object) -> None:
    orphan = imex_node(node)
    orphan["metadata"]["ownerReferences"] = []
    assert refused_by_policy(installed.create(IMEX_NODES, orphan, plugin(name_of(node))), "must be exactly its Node")


def test_the_controller_writes_spec_and_never_status(installed: ApiServer, node: Object) -> None:
    assert installed.create(IMEX_NODES, imex_node(node), plugin(name_of(node))).ok
    assert installed.patch(f"{IMEX_NODES}/{name_of(node)}", {"spec": {"maintenance": "t"}}, CONTROLLER).ok
    assert refused_by_role(installed.patch(f"{IMEX_NODES}/{name_of(node)}/status", {"status": {"bootID": "x"}}, CONTROLLER))


# --- ResourceSlice


def test_a_plugin_owns_the_slices_of_its_node(installed: ApiServer, node: Object) -> None:
    own = plugin(name_of(node))
    made = installed.create(SLICES, slice_of(name_of(node)), own)
    assert made.ok, made.message
    made.body["spec"]["pool"]["generation"] = 2
    assert installed.replace(f"{SLICES}/{name_of(made.body)}", made.body, own).ok
    assert installed.delete(f"{SLICES}/{name_of(made.body)}", own).ok


def test_a_plugin_may_not_touch_slices_of_another_node(installed: ApiServer, node: Object) -> None:
    foreign = plugin("some-other-node")
    words = "may write slices with its own spec.nodeName only"
    assert refused_by_policy(installed.create(SLICES, slice_of(name_of(node)), foreign), words)
    made = installed.create(SLICES, slice_of(name_of(node)), plugin(name_of(node)))
    assert made.ok
    assert refused_by_policy(installed.replace(f"{SLICES}/{name_of(made.body)}", made.body, foreign), words)
    assert refused_by_policy(installed.delete(f"{SLICES}/{name_of(made.body)}", foreign), words)


def test_a_plugin_may_not_publish_for_all_nodes(installed: ApiServer, node: Object) -> None:
    everywhere = slice_of(name_of(node))
    del everywhere["spec"]["nodeName"]
    everywhere["spec"]["allNodes"] = True
    assert refused_by_policy(installed.create(SLICES, everywhere, plugin(name_of(node))), "its own spec.nodeName only")


def test_a_plugin_may_not_publish_devices_of_another_driver(installed: ApiServer, node: Object) -> None:
    answer = installed.create(SLICES, slice_of(name_of(node), driver="gpu.nvidia.com"), plugin(name_of(node)))
    assert refused_by_policy(answer, "slices of driver compute-domain.nvidia.com only")


# --- Node labels


def labelled(api: ApiServer, node: Object, who: Identity, **labels: str | None) -> Answer:
    return api.patch(f"/api/v1/nodes/{name_of(node)}", {"metadata": {"labels": labels}}, who)


def test_a_plugin_sets_and_removes_its_two_labels(installed: ApiServer, node: Object) -> None:
    own = plugin(name_of(node))
    both = {"nvidia.com/gpu.clique": "u.1", "resource.nvidia.com/imex-daemon": "true"}
    done = labelled(installed, node, own, **both)
    assert done.ok and both.items() <= done.body["metadata"]["labels"].items(), done.message
    assert labelled(installed, node, own, **dict.fromkeys(both)).body["metadata"]["labels"] == node["metadata"]["labels"]


def test_a_plugin_may_not_label_another_node(installed: ApiServer, node: Object) -> None:
    answer = labelled(installed, node, plugin("some-other-node"), **{"nvidia.com/gpu.clique": "u.1"})
    assert refused_by_policy(answer, f"may not write to node {name_of(node)}")


@pytest.mark.parametrize("labels", [{"node-role.kubernetes.io/control-plane": ""}, {"topology": "rack-2"}, {"topology": None}],
                         ids=["add", "change", "remove"])
def test_a_plugin_may_not_change_other_labels(installed: ApiServer, node: Object, labels: dict[str, str | None]) -> None:
    assert refused_by_policy(labelled(installed, node, plugin(name_of(node)), **labels), "labels nvidia.com/gpu.clique and")


@pytest.mark.parametrize("patch", [
    {"spec": {"unschedulable": True}}, {"spec": {"taints": [{"key": "k", "effect": "NoExecute"}]}}, {"metadata": {"annotations": {"a": "c"}}},
    {"metadata": {"finalizers": ["x.y/z"]}},
], ids=["cordon", "taint", "annotate", "finalizer"])
def test_a_plugin_may_change_nothing_else_of_its_node(installed: ApiServer, node: Object, patch: Object) -> None:
    answer = installed.patch(f"/api/v1/nodes/{name_of(node)}", patch, plugin(name_of(node)))
    assert refused_by_policy(answer, "nothing of a Node but two labels")


def test_the_daemon_label_has_one_value(installed: ApiServer, node: Object) -> None:
    answer = labelled(installed, node, plugin(name_of(node)), **{"resource.nvidia.com/imex-daemon": "yes"})
    assert refused_by_policy(answer, "true or absent")


# --- pods


@pytest.fixture
def workload(installed: ApiServer) -> Object:
    answer = installed.create(PODS, pod(f"pod-{next(_numbers)}"))
    assert answer.ok, answer.message
    return answer.body


def test_the_controller_wakes_a_pod(installed: ApiServer, workload: Object) -> None:
    for stamp in ("1", "2"):
        answer = installed.patch(f"{PODS}/{name_of(workload)}", {"metadata": {"annotations": {"resource.nvidia.com/wake": stamp}}}, CONTROLLER)
        assert answer.ok and answer.body["metadata"]["annotations"] == {"theirs": "kept", "resource.nvidia.com/wake": stamp}, answer.message


@pytest.mark.parametrize("patch", [
    {"metadata": {"annotations": {"theirs": "changed"}}}, {"metadata": {"annotations": {"theirs": None}}},
    {"metadata": {"annotations": {"more": "x"}}}, {"metadata": {"labels": {"app": "x"}}}, {"metadata": {"finalizers": ["x.y/z"]}},
    {"spec": {"activeDeadlineSeconds": 1}},
    {"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "x", "uid": "y"}]}},
], ids=["change", "remove", "add", "label", "finalizer", "spec", "owner"])
def test_the_controller_may_change_nothing_else_of_a_pod(installed: ApiServer, workload: Object, patch: Object) -> None:
    answer = installed.patch(f"{PODS}/{name_of(workload)}", patch, CONTROLLER)
    assert refused_by_policy(answer, "the annotation resource.nvidia.com/wake of a pod and delete its own IMEX daemons, and nothing else")


def labelled_pod(namespace: str, **labels: str) -> tuple[str, Object]:
    made = pod(f"pod-{next(_numbers)}")
    made["metadata"]["labels"] = {f"app.kubernetes.io/{key}": value for key, value in labels.items()}
    return f"/api/v1/namespaces/{namespace}/pods", made


@pytest.mark.parametrize(("namespace", "labels", "allowed"), [
    (NAMESPACE, {"name": "computedomain-driver", "component": "daemon"}, True),
    (NAMESPACE, {"name": "computedomain-driver", "component": "kubelet-plugin"}, False),
    (NAMESPACE, {}, False),
], ids=["daemon", "plugin", "stranger"])
def test_the_controller_deletes_its_own_daemons_and_no_other_pod(installed: ApiServer, namespace: str, labels: dict[str, str], allowed: bool) -> None:
    path, made = labelled_pod(namespace, **labels)
    answer = installed.create(path, made)
    assert answer.ok, answer.message
    deleted = installed.request("DELETE", f"{path}/{made['metadata']['name']}", who=CONTROLLER)
    assert deleted.ok if allowed else refused_by_policy(deleted, "delete its own IMEX daemons, and nothing else"), deleted.message


def test_the_controller_deletes_no_pod_of_another_namespace(installed: ApiServer, workload: Object) -> None:
    assert refused_by_role(installed.request("DELETE", f"{PODS}/{name_of(workload)}", who=CONTROLLER))


def test_policies_bind_nobody_else(installed: ApiServer, node: Object, workload: Object) -> None:
    assert installed.patch(f"/api/v1/nodes/{name_of(node)}", {"metadata": {"labels": {"topology": "rack-9"}}}).ok
    assert installed.patch(f"{PODS}/{name_of(workload)}", {"metadata": {"labels": {"app": "x"}}}).ok
    assert installed.create(IMEX_NODES, imex_node(node)).ok


# --- roles


@pytest.mark.parametrize("path", [
    "/api/v1/secrets", "/api/v1/namespaces/default/configmaps", "/api/v1/pods", "/apis/apps/v1/daemonsets",
    f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases", "/apis/resource.k8s.io/v1/resourceclaims",
])
def test_a_plugin_reads_nothing_it_does_not_need(installed: ApiServer, path: str) -> None:
    assert refused_by_role(installed.request("GET", path, who=plugin("n")))


@pytest.mark.parametrize("path", ["/api/v1/secrets", "/api/v1/pods", "/api/v1/nodes", "/apis/apps/v1/daemonsets", "/apis/coordination.k8s.io/v1/leases"])
def test_the_controller_lists_nothing_it_does_not_need(installed: ApiServer, path: str) -> None:
    assert refused_by_role(installed.request("GET", path, who=CONTROLLER))


def test_the_controller_holds_its_own_lease_only(installed: ApiServer) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases"
    own = installed.create(path, {"metadata": {"name": "compute-domain-controller"}, "spec": {}}, CONTROLLER)
    assert own.ok and installed.replace(f"{path}/compute-domain-controller", own.body, CONTROLLER).ok
    assert installed.create(path, {"metadata": {"name": "somebody-elses"}, "spec": {}}).ok
    assert refused_by_role(installed.request("GET", f"{path}/somebody-elses", who=CONTROLLER))


def test_the_controller_tells_events_in_any_namespace_and_reads_none(installed: ApiServer) -> None:
    path = "/apis/events.k8s.io/v1/namespaces/default/events"
    event = {"apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": f"red.{next(_numbers)}", "namespace": "default"},
             "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Warning", "reason": "NotServed", "action": "Accept", "note": "n",
             "reportingController": "compute-domain-controller", "reportingInstance": "pod",
             "regarding": {"apiVersion": "resource.nvidia.com/v1beta2", "kind": "ComputeDomain", "namespace": "default", "name": "red", "uid": "u"}}
    made = installed.create(path, event, CONTROLLER)
    assert made.ok, made.message
    assert refused_by_role(installed.request("GET", path, who=CONTROLLER))


# --- installing


def test_installing_again_changes_nothing_and_is_no_error(installed: ApiServer, helm: Helm) -> None:
    done = helm.run("upgrade", "--install", "computedomain-driver", CHART, "--namespace", NAMESPACE, kubeconfig=installed.kubeconfig)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("namespace", "exists", "words"), [
    ("not-there", False, "kubectl create namespace not-there && kubectl label namespace not-there resource.kubernetes.io/admin-access=true"),
    ("not-labelled", True, "kubectl label namespace not-labelled resource.kubernetes.io/admin-access=true"),
])
def test_a_namespace_the_daemons_could_not_work_in_is_refused(api: ApiServer, helm: Helm, namespace: str, exists: bool, words: str) -> None:
    if exists:
        assert api.create("/api/v1/namespaces", {"metadata": {"name": namespace}}).ok
    done = helm.run("install", "cd", CHART, "--namespace", namespace, "--create-namespace", kubeconfig=api.kubeconfig)
    assert done.returncode != 0 and words in done.stderr, done.stderr
    assert not exists or api.get(f"/api/v1/namespaces/{namespace}").ok
