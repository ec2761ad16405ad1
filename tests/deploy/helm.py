"""The real helm on this project's chart."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
CHART = DEPLOY / "chart" / "computedomain-driver"
CRDS = DEPLOY / "crds"
NAMESPACE = "computedomain-system"


@dataclass(frozen=True)
class Helm:
    program: Path

    def run(self, *arguments: str | Path, kubeconfig: Path | None = None) -> subprocess.CompletedProcess[str]:
        environment = os.environ | {"KUBECONFIG": str(kubeconfig or os.devnull)}
        return subprocess.run([self.program, *arguments], capture_output=True, text=True, check=False, env=environment)

    def template(self, *settings: str, namespace: str = NAMESPACE) -> subprocess.CompletedProcess[str]:
        """Renders without a cluster. `settings` are values as `--set-json` takes them, `key=JSON`."""
        flags = [flag for setting in settings for flag in ("--set-json", setting)]
        return self.run("template", "cd", CHART, "--namespace", namespace, *flags)

    def objects(self, *settings: str) -> list[dict[str, Any]]:
        done = self.template(*settings)
        assert done.returncode == 0, done.stderr
        return [document for document in yaml.safe_load_all(done.stdout) if document]
