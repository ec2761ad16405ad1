"""What the chart renders, and which values it refuses."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.deploy.helm import CHART, NAMESPACE, Helm

Object = dict[str, Any]
# Every branch of the templates: the default, the layout of GPU Operator, and kernel files that are not below /proc.
VARIANTS = {
    "default": (),
    "moved-parameters": ('driverParametersFile="/run/k/nvidia/params"',),
    "operator": ('driverRoot="/run/nvidia/driver"', 'kubeletPlugin.runtimeClassName="nvidia"', 'image.digest="sha256:' + "0" * 64 + '"'),
    "moved-kernel-files": (
        'procDevicesFile="/run/k/proc/devices"', 'bootIDFile="/run/k/boot_id"', 'capabilitiesDir="/run/k/capabilities"',
        'kubeletPlugin.nodeSelector={"nvidia.com/gpu.present":null}', 'imagePullSecrets=[{"name":"s"}]', 'kubeletPlugin.seLinuxType="spc_t"'),
    "openshift": ("openshift.enabled=true", 'kubeletPlugin.seLinuxType="spc_t"', 'imexDaemon.seLinuxType="spc_t"',
                  'driverManagerLabel="nvidia.com/dra-kubelet-plugin"', 'kubeletPlugin.nodeSelector={"nvidia.com/dra-kubelet-plugin":"true"}'),
}


@pytest.fixture(scope="module", params=VARIANTS.values(), ids=VARIANTS.keys())
def objects(request: pytest.FixtureRequest, helm: Helm) -> list[Object]:
    return helm.objects(*request.param)


class UniqueKeys(yaml.SafeLoader):
    """Refuses what YAML 1.2 forbids and PyYAML passes over: a key that stands twice in a mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        assert len(set(keys)) == len(keys), f"a key stands twice{node.start_mark}"
        return super().construct_mapping(node, deep)


def of_kind(objects: list[Object], *kinds: str) -> dict[str, Object]:
    return {o["metadata"]["name"]: o for o in objects if o["kind"] in kinds}


def workloads(objects: list[Object]) -> dict[str, Object]:
    """Pod specs by name of the workload."""
    return {name: o["spec"]["template"]["spec"] for name, o in of_kind(objects, "Deployment", "DaemonSet").items()}


def container(objects: list[Object], workload: str) -> Object:
    (only,) = workloads(objects)[workload]["containers"]
    return only


def test_lint_is_clean(helm: Helm) -> None:
    done = helm.run("lint", "--strict", CHART, "--namespace", NAMESPACE)
    assert done.returncode == 0, done.stdout + done.stderr


def test_three_workloads(objects: list[Object]) -> None:
    assert workloads(objects).keys() == {"compute-domain-controller", "compute-domain-kubelet-plugin", "compute-domain-daemon"}


def test_no_container_is_privileged(objects: list[Object]) -> None:
    allowed = {"compute-domain-kubelet-plugin": ["SYS_PTRACE"]}
    for name, spec in workloads(objects).items():
        assert not spec.get("initContainers") and not spec.get("ephemeralContainers")
        for c in spec["containers"]:
            context = c["securityContext"]
            assert not context.get("privileged")
            assert context["allowPrivilegeEscalation"] is False and context["readOnlyRootFilesystem"] is True
            assert context["capabilities"]["drop"] == ["ALL"] and context["capabilities"].get("add", []) == allowed.get(name, []), name
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}


def test_no_pod_uses_the_network_of_the_host(objects: list[Object]) -> None:
    for spec in workloads(objects).values():
        assert not spec.get("hostNetwork") and not spec.get("hostIPC")
        assert not any("hostPort" in port for c in spec["containers"] for port in c.get("ports", []))


def test_only_the_plugin_sees_processes_and_files_of_the_host(objects: list[Object]) -> None:
    specs = workloads(objects)
    assert [name for name, spec in specs.items() if spec.get("hostPID")] == ["compute-domain-kubelet-plugin"]
    with_host_paths = {name for name, spec in specs.items() for v in spec.get("volumes", []) if "hostPath" in v}
    assert with_host_paths == {"compute-domain-kubelet-plugin"}


def test_the_plugin_writes_to_three_host_directories_only(objects: list[Object]) -> None:
    writable = [m["mountPath"] for m in container(objects, "compute-domain-kubelet-plugin")["volumeMounts"] if not m.get("readOnly")]
    assert writable == ["/var/lib/kubelet/plugins_registry", "/var/lib/kubelet/plugins/compute-domain.nvidia.com", "/var/run/cdi"]


def test_the_root_of_the_host_is_never_mounted(objects: list[Object]) -> None:
    spec = workloads(objects)["compute-domain-kubelet-plugin"]
    assert not {"/", "/proc", "/dev", "/sys", "/etc"} & {v["hostPath"]["path"] for v in spec["volumes"]}


def test_every_mount_has_its_volume_and_every_path_argument_is_mounted(objects: list[Object]) -> None:
    spec = workloads(objects)["compute-domain-kubelet-plugin"]
    (plugin,) = spec["containers"]
    assert sorted(m["name"] for m in plugin["volumeMounts"]) == sorted(v["name"] for v in spec["volumes"])
    mounts = [m["mountPath"] for m in plugin["volumeMounts"]]
    seen_inside = ("registry-dir", "plugin-dir", "cdi-dir", "proc-devices", "capabilities-dir", "driver-parameters", "boot-id-file")
    arguments = dict(a.removeprefix("--").split("=", 1) for a in plugin["args"])
    for flag in seen_inside:
        path = arguments[flag]
        assert path.startswith("/proc/") or any(path == m or path.startswith(m + "/") for m in mounts), f"--{flag}={path} is mounted nowhere"


def test_a_rolling_update_of_the_plugin_leaves_no_gap(objects: list[Object]) -> None:
    strategy = of_kind(objects, "DaemonSet")["compute-domain-kubelet-plugin"]["spec"]["updateStrategy"]
    assert strategy == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "10%", "maxUnavailable": 0}}
    assert not workloads(objects)["compute-domain-kubelet-plugin"].get("hostNetwork"), "two instances could not share a port"


def test_the_controller_runs_twice_as_nobody(objects: list[Object]) -> None:
    deployment = of_kind(objects, "Deployment")["compute-domain-controller"]
    context = deployment["spec"]["template"]["spec"]["securityContext"]
    assert deployment["spec"]["replicas"] == 2 and context["runAsNonRoot"] and context["runAsUser"] == 65532
    budget = of_kind(objects, "PodDisruptionBudget")["compute-domain-controller"]["spec"]
    assert budget["selector"] == deployment["spec"]["selector"] and budget["maxUnavailable"] == 1


def test_the_daemon_is_replaced_by_nobody_but_an_administrator(objects: list[Object]) -> None:
    daemon = of_kind(objects, "DaemonSet")["compute-domain-daemon"]
    assert daemon["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert "livenessProbe" not in container(objects, "compute-domain-daemon")


def test_the_daemon_is_the_last_to_leave_a_node(objects: list[Object]) -> None:
    spec = workloads(objects)["compute-domain-daemon"]
    resources = container(objects, "compute-domain-daemon")["resources"]
    assert resources["requests"] == resources["limits"] and resources["limits"].keys() == {"cpu", "memory"}
    assert spec["priorityClassName"] == "system-node-critical" and spec["tolerations"] == [{"operator": "Exists"}]


def test_the_daemon_has_no_access_to_the_api(objects: list[Object]) -> None:
    spec = workloads(objects)["compute-domain-daemon"]
    assert spec["automountServiceAccountToken"] is False
    bindings = of_kind(objects, "RoleBinding", "ClusterRoleBinding").values()
    roles = {b["roleRef"]["name"] for b in bindings if spec["serviceAccountName"] in {s["name"] for s in b["subjects"]}}
    rules = [rule for name in roles for rule in of_kind(objects, "Role", "ClusterRole")[name]["rules"]]
    assert all(rule["verbs"] == ["use"] for rule in rules), "OpenShift's constraints are used at admission, and give no access"


def test_the_daemon_gets_its_device_with_admin_access(objects: list[Object]) -> None:
    spec = workloads(objects)["compute-domain-daemon"]
    (claim,) = spec["resourceClaims"]
    template = of_kind(objects, "ResourceClaimTemplate")[claim["resourceClaimTemplateName"]]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    assert request["exactly"]["adminAccess"] is True and request["exactly"]["deviceClassName"] == "compute-domain-daemon.nvidia.com"
    assert container(objects, "compute-domain-daemon")["resources"]["claims"] == [{"name": claim["name"]}]


def test_the_daemon_runs_where_the_plugin_says(objects: list[Object]) -> None:
    spec = workloads(objects)["compute-domain-daemon"]
    assert spec["nodeSelector"]["resource.nvidia.com/imex-daemon"] == "true"
    assert {"name": "ndots", "value": "1"} in spec["dnsConfig"]["options"]


def test_null_takes_a_key_away_where_helm_leaves_it_in_the_values(helm: Helm) -> None:
    """As `helm upgrade --reuse-values` does with the null by which the installation before took a default away."""
    objects = helm.objects('kubeletPlugin.nodeSelector={"x":null}', 'controller.nodeSelector={"x":null,"y":"z"}', 'podAnnotations={"x":null}')
    pods = workloads(objects)
    assert pods["compute-domain-kubelet-plugin"]["nodeSelector"].keys() == {"kubernetes.io/os", "nvidia.com/gpu.present"}
    assert pods["compute-domain-controller"]["nodeSelector"] == {"kubernetes.io/os": "linux", "y": "z"}
    assert all("annotations" not in o["spec"]["template"]["metadata"] for o in of_kind(objects, "Deployment", "DaemonSet").values())


def test_no_role_has_a_wildcard_or_reads_secrets(objects: list[Object]) -> None:
    for name, role in of_kind(objects, "Role", "ClusterRole").items():
        for rule in role["rules"]:
            assert "*" not in rule["apiGroups"] + rule["resources"] + rule["verbs"], name
            assert not {"secrets", "serviceaccounts/token", "pods/exec", "nodes/proxy"} & set(rule["resources"]), name
            assert not {"impersonate", "bind", "escalate"} & set(rule["verbs"]), name


@pytest.mark.parametrize("settings", VARIANTS.values(), ids=VARIANTS.keys())
def test_no_key_and_no_object_stands_twice(helm: Helm, settings: tuple[str, ...]) -> None:
    """Strict YAML readers refuse the first, and of two objects of a name one is lost."""
    rendered = helm.template(*settings).stdout
    documents = [document for document in yaml.load_all(rendered, UniqueKeys) if document]
    names = [(o["kind"], o["metadata"].get("namespace"), o["metadata"]["name"]) for o in documents]
    assert len(set(names)) == len(names)


def test_no_container_asks_the_runtime_for_gpus(helm: Helm) -> None:
    """The daemon gets its device through its claim; the plugin is given GPUs only by an explicit value."""
    for name in workloads(helm.objects()):
        environment = {e["name"] for e in container(helm.objects(), name).get("env", [])}
        assert not [e for e in environment if e.startswith("NVIDIA_")], name


def test_driver_manager_takes_plugin_and_daemon_off_a_node(helm: Helm) -> None:
    """Its label is "true" while the driver may be used. Both hold the driver open; the controller does not."""
    label = "nvidia.com/dra-kubelet-plugin"
    without = {name: spec["nodeSelector"] for name, spec in workloads(helm.objects()).items()}
    assert not [name for name, selector in without.items() if label in selector]
    for name, spec in workloads(helm.objects(f'driverManagerLabel="{label}"')).items():
        more = {} if name == "compute-domain-controller" else {label: "true"}
        assert spec["nodeSelector"] == without[name] | more, name


def test_pull_secrets_reach_every_workload(helm: Helm) -> None:
    for name, spec in workloads(helm.objects('imagePullSecrets=[{"name":"s"}]')).items():
        assert spec["imagePullSecrets"] == [{"name": "s"}], name


def test_every_probe_asks_a_port_the_program_was_given(helm: Helm) -> None:
    objects = helm.objects("controller.healthPort=9081", "kubeletPlugin.healthPort=9082")
    for name, port in {"compute-domain-controller": 9081, "compute-domain-kubelet-plugin": 9082}.items():
        c = container(objects, name)
        assert f"--health-port={port}" in c["args"]
        ports = {p["name"]: p["containerPort"] for p in c["ports"]}
        probes = {kind: c[kind] for kind in ("livenessProbe", "readinessProbe", "startupProbe") if kind in c}
        assert {ports.get(p["httpGet"]["port"], p["httpGet"]["port"]) for p in probes.values()} == {port}
        assert "livenessProbe" not in probes or probes["livenessProbe"]["failureThreshold"] * probes["livenessProbe"]["periodSeconds"] >= 30
    startup = container(objects, "compute-domain-kubelet-plugin")["startupProbe"]
    assert startup["periodSeconds"] == 1, "the plugin counts as started within a second"
    assert startup["failureThreshold"] >= 60, "a slow start is not taken for a dead plugin"


def test_each_policy_has_a_binding_that_denies_and_fails_closed(objects: list[Object]) -> None:
    policies = of_kind(objects, "ValidatingAdmissionPolicy")
    bindings = of_kind(objects, "ValidatingAdmissionPolicyBinding")
    assert policies.keys() == {b["spec"]["policyName"] for b in bindings.values()}
    assert all(b["spec"]["validationActions"] == ["Deny"] for b in bindings.values())
    assert all(p["spec"]["failurePolicy"] == "Fail" and p["spec"]["matchConstraints"]["matchPolicy"] == "Equivalent" for p in policies.values())


def test_device_classes_have_the_names_that_manifests_rely_on(objects: list[Object]) -> None:
    assert of_kind(objects, "DeviceClass").keys() == {"compute-domain-default-channel.nvidia.com", "compute-domain-daemon.nvidia.com"}


def test_crds_are_installed_but_never_deleted_by_helm(helm: Helm, objects: list[Object]) -> None:
    assert not of_kind(objects, "CustomResourceDefinition"), "a CRD among the templates is deleted on uninstall, and every ComputeDomain with it"
    shown = helm.run("show", "crds", CHART).stdout
    assert all(f"name: {name}.resource.nvidia.com" in shown for name in ("computedomains", "imexdomains", "imexnodes"))


@pytest.mark.parametrize(("setting", "complaint"), [
    ('controler={"replicas":3}', "controler"),
    ('kubeletPlugin.slot=4', "slot"),
    ('kubeletPlugin.slots=0', "/kubeletPlugin/slots"),
    ('kubeletPlugin.slots=101', "/kubeletPlugin/slots"),
    ('kubeletPlugin.deviceMode="many"', "/kubeletPlugin/deviceMode"),
    ('controller.replicas=0', "/controller/replicas"),
    ('controller.healthPort=80', "/controller/healthPort"),
    ('logLevel="verbose"', "/logLevel"),
    ('driverRoot="run/nvidia/driver"', "/driverRoot"),
    ('driverRoot="/run/../etc"', "/driverRoot"),
    ('cdiDir="/var/run/cdi: x"', "/cdiDir"),
    ('image.pullPolicy="Sometimes"', "/image/pullPolicy"),
    ('image.digest="latest"', "/image/digest"),
    ('driverManagerLabel="no label"', "/driverManagerLabel"),
    ('openshift.enabled="yes"', "/openshift/enabled"),
    ('imexDaemon.resources={"cpu":"1","memory":null}', "/imexDaemon/resources"),
    ('imexDaemon.resources.requests={"cpu":"1"}', "/imexDaemon/resources"),
])
def test_a_wrong_value_is_refused_by_name(helm: Helm, setting: str, complaint: str) -> None:
    done = helm.template(setting)
    assert done.returncode != 0 and complaint in done.stderr, done.stderr


def test_namespace_default_is_refused_with_the_remedy(helm: Helm) -> None:
    done = helm.template(namespace="default")
    assert done.returncode != 0
    assert "kubectl label namespace computedomain-system resource.kubernetes.io/admin-access=true" in done.stderr
