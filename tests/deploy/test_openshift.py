"""OpenShift admits a pod only if SecurityContextConstraints that its service account may use allow all it asks for."""

from __future__ import annotations

from typing import Any

import pytest

from tests.deploy.helm import NAMESPACE, Helm

Object = dict[str, Any]
VARIANTS = {
    "default": (),
    "selinux": ('kubeletPlugin.seLinuxType="spc_t"', 'imexDaemon.seLinuxType="spc_t"', 'driverRoot="/run/nvidia/driver"'),
}


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=VARIANTS.keys())
def objects(request: pytest.FixtureRequest, helm: Helm) -> list[Object]:
    return helm.objects("openshift.enabled=true", "webhook.enabled=true", *request.param)


def pods(objects: list[Object]) -> list[Object]:
    return [o["spec"]["template"]["spec"] for o in objects if o["kind"] in ("Deployment", "DaemonSet")]


def constraints_of(objects: list[Object], account: str) -> Object:
    """The one set of constraints that the service account may use, by binding and role."""
    roles = [b["roleRef"]["name"] for b in objects if b["kind"] == "RoleBinding" and b["metadata"]["namespace"] == NAMESPACE
             and {"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE} in b["subjects"]]
    rules = [rule for o in objects if o["kind"] == "Role" and o["metadata"]["name"] in roles for rule in o["rules"]
             if "security.openshift.io" in rule["apiGroups"]]
    (rule,) = rules
    assert rule["resources"] == ["securitycontextconstraints"] and rule["verbs"] == ["use"]
    (name,) = rule["resourceNames"]
    (found,) = [o for o in objects if o["kind"] == "SecurityContextConstraints" and o["metadata"]["name"] == name]
    assert not found.get("users") and not found.get("groups"), "access is given by the role alone"
    return found


def wishes(pod: Object) -> Object:
    """What the pod asks for, in the words of the constraints; with the volume of its API token."""
    volumes = {kind for volume in pod.get("volumes", []) for kind in volume if kind != "name"}
    if pod["automountServiceAccountToken"]:
        volumes.add("projected")
    (container,) = pod["containers"]
    context, capabilities = container["securityContext"], container["securityContext"]["capabilities"]
    return {
        "allowHostPID": bool(pod.get("hostPID")), "allowHostIPC": bool(pod.get("hostIPC")), "allowHostNetwork": bool(pod.get("hostNetwork")),
        "allowHostPorts": any("hostPort" in port for port in container.get("ports", [])),
        "allowHostDirVolumePlugin": "hostPath" in volumes, "volumes": volumes,
        "allowPrivilegedContainer": bool(context.get("privileged")), "allowPrivilegeEscalation": context["allowPrivilegeEscalation"],
        "readOnlyRootFilesystem": context["readOnlyRootFilesystem"],
        "allowedCapabilities": set(capabilities.get("add", [])), "requiredDropCapabilities": set(capabilities["drop"]),
        "uid": pod["securityContext"]["runAsUser"], "seLinuxOptions": pod["securityContext"].get("seLinuxOptions"),
    }


def test_each_pod_is_admitted_and_could_ask_for_nothing_more(objects: list[Object]) -> None:
    assert len(pods(objects)) == 4
    for pod in pods(objects):
        constraints, wish = constraints_of(objects, pod["serviceAccountName"]), wishes(pod)
        name = constraints["metadata"]["name"]
        for field in ("volumes", "allowedCapabilities", "requiredDropCapabilities"):
            assert set(constraints[field]) == wish[field], f"{field} of {name}"
        for field in [field for field in wish if field.startswith("allowHost") or field in ("allowPrivilegedContainer", "allowPrivilegeEscalation")]:
            assert constraints[field] is wish[field], f"{field} of {name}"
        assert constraints["readOnlyRootFilesystem"] is wish["readOnlyRootFilesystem"] is True
        assert constraints["runAsUser"] == {"type": "MustRunAs", "uid": wish["uid"]}, name
        assert constraints["seLinuxContext"]["type"] == "RunAsAny" or wish["seLinuxOptions"] is None, name
        assert {constraints[field]["type"] for field in ("fsGroup", "supplementalGroups")} == {"RunAsAny"}
        assert constraints["seccompProfiles"] == ["runtime/default"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_elsewhere_nothing_of_it_is_rendered(helm: Helm) -> None:
    """Nor for a release that reuses values from before there was this one."""
    for settings in ((), ("openshift=null", "driverManagerLabel=null")):
        assert not [o for o in helm.objects(*settings) if o["apiVersion"].startswith("security.openshift.io/") or o["metadata"]["name"].endswith("-scc")]
