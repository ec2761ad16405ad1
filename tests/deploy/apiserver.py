"""A real kube-apiserver with its etcd on loopback, and a client that can speak as anybody."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.pki import Pki, Subject, kubeconfig

START_SECONDS = 120.0
Object = dict[str, Any]


@dataclass(frozen=True)
class Answer:
    status: int
    body: Object

    @property
    def ok(self) -> bool:
        return 200 <= self.status < 300

    @property
    def message(self) -> str:
        return self.body.get("message", "")


@dataclass(frozen=True)
class Identity:
    """Whom a request is made for; impersonated, so authorisation and admission see exactly this."""

    user: str
    groups: Sequence[str] = ()
    node: str = ""

    @staticmethod
    def service_account(namespace: str, name: str, node: str = "") -> Identity:
        """A service account, with the node that a token mounted into a pod names; without, as a token made by hand."""
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return Identity(f"system:serviceaccount:{namespace}:{name}", groups, node)

    def headers(self) -> list[tuple[str, str]]:
        found = [("Impersonate-User", self.user), *(("Impersonate-Group", group) for group in self.groups)]
        if self.node:
            found.append(("Impersonate-Extra-authentication.kubernetes.io%2Fnode-name", self.node))
        return found


class ApiServer:
    """One running API server; requests are made as its administrator unless an Identity is given."""

    def __init__(self, port: int, pki: Pki, config: Path) -> None:
        self.kubeconfig = config
        self._port = port
        self._tls = ssl.create_default_context(cafile=str(pki.authority))
        self._tls.load_cert_chain(pki.certificate("admin"), pki.key("admin"))

    def request(self, method: str, path: str, body: Any = None, who: Identity | None = None, content: str = "application/json",
                accept: str = "application/json") -> Answer:
        connection = http.client.HTTPSConnection("127.0.0.1", self._port, context=self._tls, timeout=30)
        with closing(connection):
            text = b"" if body is None else json.dumps(body).encode()
            connection.putrequest(method, path)
            for name, value in [("Accept", accept), ("Content-Type", content), ("Content-Length", str(len(text))), *(who.headers() if who else [])]:
                connection.putheader(name, value)
            connection.endheaders(text)
            response = connection.getresponse()
            return Answer(response.status, _object(response.read()))

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def get_table(self, path: str) -> Object:
        """What `kubectl get` prints: column names and cells."""
        return self.request("GET", path, accept="application/json;as=Table;v=v1;g=meta.k8s.io").body

    def create(self, path: str, body: Object, who: Identity | None = None) -> Answer:
        return self.request("POST", path, body, who)

    def replace(self, path: str, body: Object, who: Identity | None = None) -> Answer:
        return self.request("PUT", path, body, who)

    def patch(self, path: str, body: Object, who: Identity | None = None) -> Answer:
        return self.request("PATCH", path, body, who, "application/merge-patch+json")

    def delete(self, path: str, who: Identity | None = None) -> Answer:
        return self.request("DELETE", path, who=who)

    def ready(self) -> bool:
        try:
            return self.get("/readyz").ok
        except OSError:
            return False


def _object(text: bytes) -> Object:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    return found if isinstance(found, dict) else {"message": text.decode(errors="replace")}


@contextmanager
def running(programs: Path, folder: Path) -> Iterator[ApiServer]:
    """Starts both programs and stops them again; everything they write is below `folder`."""
    pki = Pki(folder / "pki")
    pki.create_authority()
    pki.issue("admin", Subject("admin", ["system:masters"]))
    pki.issue("server", Subject("kube-apiserver"), ["IP:127.0.0.1"])
    etcd_port, peer_port, api_port = _free_ports(3)
    config = folder / "kubeconfig"
    config.write_text(kubeconfig(f"https://127.0.0.1:{api_port}", str(pki.authority), str(pki.certificate("admin")), str(pki.key("admin"))))
    etcd = [
        "etcd", f"--data-dir={folder}/etcd", "--unsafe-no-fsync", "--log-level=warn",
        f"--listen-client-urls=http://127.0.0.1:{etcd_port}", f"--advertise-client-urls=http://127.0.0.1:{etcd_port}",
        f"--listen-peer-urls=http://127.0.0.1:{peer_port}",
    ]
    server = [
        "kube-apiserver", f"--etcd-servers=http://127.0.0.1:{etcd_port}", f"--secure-port={api_port}", "--bind-address=127.0.0.1",
        f"--tls-cert-file={pki.certificate('server')}", f"--tls-private-key-file={pki.key('server')}", f"--client-ca-file={pki.authority}",
        f"--service-account-key-file={pki.service_account_public_key}", f"--service-account-signing-key-file={pki.service_account_key}",
        "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24", "--authorization-mode=RBAC",
        # No controller makes the default service account here.
        "--disable-admission-plugins=ServiceAccount",
    ]
    with ExitStack() as stack:
        for command in (etcd, server):
            stack.enter_context(_process(programs, command, folder))
        api = ApiServer(api_port, pki, config)
        deadline = time.monotonic() + START_SECONDS
        while not api.ready():
            if time.monotonic() > deadline:
                raise AssertionError("kube-apiserver not ready; its last words:\n" + (folder / "kube-apiserver.log").read_text()[-4000:])
            time.sleep(0.1)
        yield api


@contextmanager
def _process(programs: Path, command: list[str], folder: Path) -> Iterator[None]:
    with (folder / f"{command[0]}.log").open("w") as log:
        process = subprocess.Popen([str(programs / command[0]), *command[1:]], stdout=log, stderr=log, cwd=folder)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for bound in sockets:
            bound.bind(("127.0.0.1", 0))
        return [bound.getsockname()[1] for bound in sockets]
