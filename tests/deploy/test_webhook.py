"""The chart's part of serving v1beta1: a webhook that an interruption of one node does not take away, and that nobody removes by mistake."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.deploy.apiserver import ApiServer
from tests.deploy.helm import CHART, NAMESPACE, Helm

Object = dict[str, Any]
NAME = "compute-domain-webhook"
CRD = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/computedomains.resource.nvidia.com"


@pytest.fixture(scope="module")
def objects(helm: Helm) -> dict[str, Object]:
    """By kind, what has the webhook's name."""
    return {o["kind"]: o for o in helm.objects("webhook.enabled=true", "webhook.port=9553", "webhook.healthPort=9083", 'webhook.tlsSecret="mine"')
            if o["metadata"]["name"] == NAME}


def container(objects: dict[str, Object]) -> Object:
    (only,) = objects["Deployment"]["spec"]["template"]["spec"]["containers"]
    return only


def test_nothing_of_it_is_there_unless_asked_for(helm: Helm) -> None:
    for settings in ((), ("webhook=null",)):
        assert not [o for o in helm.objects(*settings) if o["metadata"]["name"] == NAME]


def test_it_runs_twice_as_nobody_without_access_to_the_api(objects: dict[str, Object]) -> None:
    assert objects.keys() == {"ServiceAccount", "Deployment", "Service", "PodDisruptionBudget"}, "no role, no binding"
    spec = objects["Deployment"]["spec"]
    pod, context = spec["template"]["spec"], container(objects)["securityContext"]
    assert spec["replicas"] == 2 and spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert pod["automountServiceAccountToken"] is False and objects["ServiceAccount"]["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert context == {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
    budget = objects["PodDisruptionBudget"]["spec"]
    assert budget["selector"] == spec["selector"] and budget["maxUnavailable"] == 1


def test_service_and_probes_reach_the_ports_the_program_was_given(objects: dict[str, Object]) -> None:
    c = container(objects)
    ports = {p["name"]: p["containerPort"] for p in c["ports"]}
    assert ports == {"https": 9553, "health": 9083} and {"--port=9553", "--health-port=9083", "--tls-dir=/tls"} <= set(c["args"])
    assert {c[kind]["httpGet"]["port"] for kind in ("livenessProbe", "readinessProbe", "startupProbe")} == {"health"}
    service, labels = objects["Service"]["spec"], objects["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert service["selector"].items() <= labels.items() and [(p["port"], p["targetPort"]) for p in service["ports"]] == [(443, "https")]


def test_the_key_is_mounted_for_the_group_alone(objects: dict[str, Object]) -> None:
    pod = objects["Deployment"]["spec"]["template"]["spec"]
    (volume,) = pod["volumes"]
    assert volume["secret"]["secretName"] == "mine" and volume["secret"]["defaultMode"] == 0o440
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"]
    assert container(objects)["volumeMounts"] == [{"name": volume["name"], "mountPath": "/tls", "readOnly": True}]


@pytest.mark.parametrize(("setting", "complaint"), [
    ('webhook.enabled="yes"', "/webhook/enabled"),
    ('webhook.replicas=0', "/webhook/replicas"),
    ('webhook.tlsSecret=""', "/webhook/tlsSecret"),
    ('webhook.tls="mine"', "tls"),
])
def test_a_wrong_value_is_refused_by_name(helm: Helm, setting: str, complaint: str) -> None:
    done = helm.template(setting)
    assert done.returncode != 0 and complaint in done.stderr, done.stderr


@pytest.fixture
def converting(installed: ApiServer) -> Iterator[ApiServer]:
    """A cluster whose API server is told to ask the webhook."""
    client = {"service": {"namespace": NAMESPACE, "name": NAME, "path": "/convert"}}
    webhook = {"conversionReviewVersions": ["v1"], "clientConfig": client}
    assert installed.patch(CRD, {"spec": {"conversion": {"strategy": "Webhook", "webhook": webhook}}}).ok
    yield installed
    assert installed.patch(CRD, {"spec": {"conversion": {"strategy": "None", "webhook": None}}}).ok


def test_a_webhook_that_is_asked_is_not_removed(converting: ApiServer, helm: Helm) -> None:
    def upgrade(enabled: str) -> str:
        done = helm.run("upgrade", "computedomain-driver", CHART, "--namespace", NAMESPACE, "--dry-run=server", "--set", f"webhook.enabled={enabled}",
                        kubeconfig=converting.kubeconfig)
        return "" if done.returncode == 0 else done.stderr

    assert "stop serving v1beta1 first" in upgrade("false")
    assert upgrade("true") == ""
