"""The lab's certificates and kubeconfigs, made by openssl at the first `up`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lab.errors import LabError

DAYS = "3650"


@dataclass(frozen=True)
class Subject:
    user: str
    groups: Sequence[str] = ()

    def openssl(self) -> str:
        # A slash separates fields in openssl's notation; no name of ours has one.
        return "".join(f"/O={group}" for group in self.groups) + f"/CN={self.user}"


class Pki:
    """One certificate authority and what it signed, in one folder."""

    def __init__(self, folder: Path):
        self.folder = folder

    def certificate(self, name: str) -> Path:
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        return self.folder / f"{name}.key"

    @property
    def authority(self) -> Path:
        return self.certificate("ca")

    @property
    def service_account_public_key(self) -> Path:
        return self.folder / "service-account.pub"

    @property
    def service_account_key(self) -> Path:
        return self.key("service-account")

    def create_authority(self) -> None:
        """The CA and the key pair of service account tokens; once per lab."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self.authority.exists():
            self._request("ca", Subject("lab-ca"), ["basicConstraints=critical,CA:TRUE"], [])
        if not self.service_account_public_key.exists():
            key = str(self.service_account_key)
            curve = ["-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256"]
            _openssl("genpkey", *curve, "-out", key)
            public = str(self.service_account_public_key)
            _openssl("pkey", "-in", key, "-pubout", "-out", public)

    def issue(self, name: str, subject: Subject, addresses: Sequence[str] = ()) -> None:
        """A certificate for client and server use; `addresses` are SAN entries."""
        if self.certificate(name).exists():
            return
        extensions = ["extendedKeyUsage=clientAuth,serverAuth"]
        if addresses:
            extensions.append("subjectAltName=" + ",".join(addresses))
        signer = ["-CA", str(self.authority), "-CAkey", str(self.key("ca"))]
        self._request(name, subject, extensions, signer)

    def _request(
        self, name: str, subject: Subject, extensions: Sequence[str], signer: Sequence[str]
    ) -> None:
        fresh = self.certificate(name).with_suffix(".new")
        options = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        options += ["-subj", subject.openssl(), "-days", DAYS, *signer]
        for extension in extensions:
            options += ["-addext", extension]
        _openssl("req", "-x509", *options, "-keyout", str(self.key(name)), "-out", str(fresh))
        fresh.rename(self.certificate(name))


def _openssl(*arguments: str) -> None:
    done = subprocess.run(["openssl", *arguments], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise LabError(f"openssl {arguments[0]}: {done.stderr.strip()}", component="certificates")


def kubeconfig(server: str, authority: str, certificate: str, key: str) -> str:
    """A kubeconfig that names files; JSON is YAML too."""
    cluster = {"server": server, "certificate-authority": authority}
    user = {"client-certificate": certificate, "client-key": key}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lab", "cluster": cluster}],
            "users": [{"name": "lab", "user": user}],
            "contexts": [{"name": "lab", "context": {"cluster": "lab", "user": "lab"}}],
            "current-context": "lab",
        },
        indent=1,
    )
