"""The control plane: etcd, API server, controller manager and scheduler."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from lab import network
from lab.api import Api
from lab.cgroups import CgroupTree
from lab.component import PATH, Component
from lab.errors import LabError
from lab.identity import CHECKOUT
from lab.namespaces import Namespaces
from lab.pki import Pki, Subject, kubeconfig
from lab.processes import wait_until

SERVER = f"https://{network.CONTROL_ADDRESS}:{network.API_PORT}"
ETCD = "http://127.0.0.1:2379"
CLIENTS = {
    "admin": Subject("lab-admin", ["system:masters"]),
    "kube-controller-manager": Subject("system:kube-controller-manager"),
    "kube-scheduler": Subject("system:kube-scheduler"),
    "kube-proxy": Subject("system:kube-proxy"),
}
COMPONENTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
READY_SECONDS = 90.0


@dataclass(frozen=True)
class ControlPlane:
    """The control plane of one lab, in `folder`."""

    lab: str
    folder: Path
    programs: Path
    pki: Pki
    cgroups: CgroupTree
    feature_gates: str

    @property
    def admin_kubeconfig(self) -> Path:
        return self.folder / "admin.kubeconfig"

    @property
    def audit_log(self) -> Path:
        return self.folder / "log" / "audit.log"

    def namespaces(self) -> Namespaces | None:
        """The control plane's network; None when the lab is not up."""
        process = self._holder().process()
        return None if process is None else Namespaces(process.pid, whole_node=False)

    def require_namespaces(self) -> Namespaces:
        namespaces = self.namespaces()
        if namespaces is None:
            raise LabError("the lab is not up; start it with `lab up`")
        return namespaces

    def environment(self) -> dict[str, str]:
        """What `lab exec` adds for programs that talk to the cluster."""
        clients = self.folder / "clients"
        return {
            "KUBECONFIG": str(self.admin_kubeconfig),
            "PATH": f"{self.programs}:{PATH}",
            # All labs have one address, by which kubectl and helm name what they
            # cache: what one lab's API server serves must not be taken for another's.
            "KUBECACHEDIR": str(clients / "kubectl"),
            "HELM_CACHE_HOME": str(clients / "helm-cache"),
            "HELM_CONFIG_HOME": str(clients / "helm-config"),
            "HELM_DATA_HOME": str(clients / "helm-data"),
        }

    def start_network(self) -> Namespaces:
        process, started = self._holder().ensure()
        namespaces = Namespaces(process.pid, whole_node=False)
        if started:
            network.set_up_control(namespaces)
        return namespaces

    def start(self, namespaces: Namespaces) -> None:
        """Starts what does not run and waits until all of it works."""
        self._write_files()
        for name in ("etcd", "kube-apiserver"):
            self.component(name).ensure()
        self.wait_ready(namespaces)
        for name in ("kube-controller-manager", "kube-scheduler"):
            self.component(name).ensure()

    def wait_ready(self, namespaces: Namespaces) -> None:
        server = self.component("kube-apiserver")
        etcd = self.component("etcd")
        api = self.api(namespaces)

        def answers() -> bool:
            etcd.check_runs()
            return api.ready()

        wait_until(
            answers,
            component=server.name,
            what="answer that it is ready",
            seconds=READY_SECONDS,
            log=server.log,
            process=server.process(),
        )

    def api(self, namespaces: Namespaces) -> Api:
        return Api(namespaces, self.pki)

    def components(self) -> list[Component]:
        return [self.component(name) for name in COMPONENTS]

    def component(self, name: str) -> Component:
        commands = {
            "etcd": self._etcd,
            "kube-apiserver": self._apiserver,
            "kube-controller-manager": self._controller_manager,
            "kube-scheduler": self._scheduler,
        }
        if name not in commands:
            raise LabError(f"{name!r} is no component; components are: {', '.join(commands)}")
        arguments = commands[name]()
        if self.feature_gates and name != "etcd":
            arguments.append(f"--feature-gates={self.feature_gates}")
        return Component(
            name,
            [str(self.programs / name), *arguments],
            self.folder,
            self.cgroups.create("control"),
            self.namespaces(),
        )

    def _holder(self) -> Component:
        return Component(
            "network",
            [sys.executable, "-m", "lab.holder", f"{self.lab} control"],
            self.folder,
            self.cgroups.create("control"),
            environment={"PYTHONPATH": str(CHECKOUT), "PYTHONDONTWRITEBYTECODE": "1"},
            ready_line="ready",
        )

    def create_certificates(self) -> None:
        self.pki.create_authority()
        names = [f"IP:{network.CONTROL_ADDRESS}", f"IP:{network.API_SERVICE_ADDRESS}"]
        names += ["IP:127.0.0.1", "DNS:localhost", "DNS:kubernetes", "DNS:kubernetes.default"]
        names += ["DNS:kubernetes.default.svc", "DNS:kubernetes.default.svc.cluster.local"]
        self.pki.issue("kube-apiserver", Subject("kube-apiserver"), names)
        for name, subject in CLIENTS.items():
            self.pki.issue(name, subject)

    def _write_files(self) -> None:
        for name in CLIENTS:
            certificate, key = self.pki.certificate(name), self.pki.key(name)
            text = kubeconfig(SERVER, str(self.pki.authority), str(certificate), str(key))
            path = self.folder / f"{name}.kubeconfig"
            path.write_text(text)
            path.chmod(0o600)
        policy = {
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{"level": "Metadata"}],
        }
        (self.folder / "audit-policy.json").write_text(json.dumps(policy))

    def _etcd(self) -> list[str]:
        return [
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={ETCD}",
            f"--advertise-client-urls={ETCD}",
            "--listen-peer-urls=http://127.0.0.1:2380",
            # Nothing here outlives the machine's power.
            "--unsafe-no-fsync",
            "--log-level=warn",
        ]

    def _apiserver(self) -> list[str]:
        pki = self.pki
        return [
            f"--etcd-servers={ETCD}",
            f"--service-cluster-ip-range={network.SERVICE_NETWORK}",
            f"--advertise-address={network.CONTROL_ADDRESS}",
            f"--secure-port={network.API_PORT}",
            f"--tls-cert-file={pki.certificate('kube-apiserver')}",
            f"--tls-private-key-file={pki.key('kube-apiserver')}",
            f"--client-ca-file={pki.authority}",
            f"--kubelet-client-certificate={pki.certificate('admin')}",
            f"--kubelet-client-key={pki.key('admin')}",
            f"--kubelet-certificate-authority={pki.authority}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={pki.service_account_public_key}",
            f"--service-account-signing-key-file={pki.service_account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            # There is no kube-proxy beside the API server: webhooks by pod address.
            "--enable-aggregator-routing=true",
            f"--audit-policy-file={self.folder / 'audit-policy.json'}",
            f"--audit-log-path={self.audit_log}",
            "--audit-log-maxsize=1000",
        ]

    def _controller_manager(self) -> list[str]:
        kubeconfig_path = self.folder / "kube-controller-manager.kubeconfig"
        return [
            f"--kubeconfig={kubeconfig_path}",
            f"--authentication-kubeconfig={kubeconfig_path}",
            f"--authorization-kubeconfig={kubeconfig_path}",
            f"--service-account-private-key-file={self.pki.service_account_key}",
            f"--root-ca-file={self.pki.authority}",
            f"--cluster-signing-cert-file={self.pki.authority}",
            f"--cluster-signing-key-file={self.pki.key('ca')}",
            # Its default is a folder of the machine, which it would make.
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]

    def _scheduler(self) -> list[str]:
        kubeconfig_path = self.folder / "kube-scheduler.kubeconfig"
        return [
            f"--kubeconfig={kubeconfig_path}",
            f"--authentication-kubeconfig={kubeconfig_path}",
            f"--authorization-kubeconfig={kubeconfig_path}",
            "--leader-elect=false",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
        ]

