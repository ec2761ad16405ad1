"""`make bench`; docs/bench.md says what it measures and how to read it."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from bench import noop, report, sizes, timeline, usage
from bench.audit import AuditLog, open_watches, tally
from bench.domains import Domains
from bench.errors import BenchError
from bench.gangs import Gangs
from bench.life import Lives
from bench.pods import Pods
from bench.results import Results
from bench.rounds import Rounds
from bench.samples import Samples
from bench.targets import judge
from lab.client import IMEX_NODE, NAMESPACE, NODE, POD, SERVICE_ACCOUNT, ApiError, Cluster, Object, wait_until
from lab.images import architecture

CHECKOUT = Path(__file__).resolve().parent.parent
LATEST = CHECKOUT / "bench" / "results" / "latest.json"
IMAGE = CHECKOUT / "build" / "image" / f"computedomain-driver-{architecture()}.tar"
DRIVER_NAMESPACE = "computedomain-system"
DRIVER_LABEL = "app.kubernetes.io/name=computedomain-driver"
BENCH_NAMESPACE = "bench"
ROUNDS_A_LIFE = 3

_started = time.monotonic()


def say(message: str) -> None:
    print(f"[{time.monotonic() - _started:6.1f} s] {message}", file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="bench", description=__doc__)
    parser.add_argument("--samples", type=int, default=30, help="of each shape; below 30 the figures are for development only")
    parser.add_argument("--rest", type=float, default=0.3, metavar="SECONDS", help="quiet before each sample")
    parser.add_argument("--idle", type=float, default=60, metavar="SECONDS", help="between the load and the look at memory")
    parser.add_argument("--controls-only", action="store_true", help="only what needs no ComputeDomain driver")
    parser.add_argument("--check", action="store_true", help="fail when a target was missed")
    parser.add_argument("--image", type=Path, default=IMAGE, help="archive of the driver's image")
    parser.add_argument("--audit-log", type=Path, default=Path(os.environ["KUBECONFIG"]).parent / "log" / "audit.log",
                        help="of the API server; default: the lab's")
    parser.add_argument("--out", type=Path, default=LATEST)
    return parser.parse_args()


def require_driver(cluster: Cluster) -> None:
    try:
        cluster.list(IMEX_NODE)
    except ApiError as error:
        raise BenchError(f"the ComputeDomain driver is not installed (`lab/lab install` does it, --controls-only goes without): {error}") from error


def make_namespace(cluster: Cluster) -> None:
    """An empty namespace: what an interrupted run left is removed first."""
    remove_namespace(cluster)
    cluster.create(NAMESPACE, {"metadata": {"name": BENCH_NAMESPACE}})
    wait_until(lambda: cluster.find(SERVICE_ACCOUNT, "default", BENCH_NAMESPACE), "the service account of the bench", 30)


def remove_namespace(cluster: Cluster) -> None:
    if not cluster.find(NAMESPACE, BENCH_NAMESPACE):
        return
    # Pods before the driver: without it nobody unprepares their claims, and they would never go.
    for pod in measured_pods(cluster):
        cluster.delete(POD, pod["metadata"]["name"], BENCH_NAMESPACE)
    wait_until(lambda: not measured_pods(cluster), f"the pods in namespace {BENCH_NAMESPACE} gone", 120)
    cluster.delete(NAMESPACE, BENCH_NAMESPACE)
    wait_until(lambda: not cluster.find(NAMESPACE, BENCH_NAMESPACE), f"namespace {BENCH_NAMESPACE} gone", 120)


def measured_pods(cluster: Cluster) -> list[Object]:
    return cluster.list(POD, BENCH_NAMESPACE, labelSelector=f"app!={noop.DRIVER}")


def measure(cluster: Cluster, options: argparse.Namespace, nodes: list[str], results: Results) -> None:
    """Fills `results` as it goes, so that what was measured before a failure is kept."""
    log = AuditLog(options.audit_log)
    pods = Pods(cluster, BENCH_NAMESPACE)
    domains = None if options.controls_only else Domains(cluster, BENCH_NAMESPACE)
    if domains:
        domains.wait_at_rest(nodes)
    rounds = Rounds(pods, domains, Gangs(pods, domains, nodes, BENCH_NAMESPACE) if domains else None, nodes, options.rest)
    say(f"warm-up, not counted: {rounds.play(0)}")
    rounds.samples = results.samples
    began = log.position()
    for number in range(options.samples):
        say(f"round {number + 1} of {options.samples}, {rounds.play(number)}")
        if domains and number % ROUNDS_A_LIFE == 0:
            life = Lives(pods, domains, log, DRIVER_NAMESPACE).live(number, nodes[:2])
            results.lives.append(life)
            say(f"  a domain's life: {life.total} API requests, {life.writes} of them writes, {life.refused} refused")
    results.timelines = timeline.timelines(results.samples.taken, log.since(began))
    if domains:
        look_at_rest(cluster, options, log, results)
        results.image = sizes.measure(options.image)


def look_at_rest(cluster: Cluster, options: argparse.Namespace, log: AuditLog, results: Results) -> None:
    """Memory and requests of the driver some time after the load."""
    say(f"{options.idle:.0f} s of rest, then memory")
    position = log.position()
    time.sleep(options.idle)
    results.idle, results.idle_seconds = tally(log.since(position), DRIVER_NAMESPACE), options.idle
    # The no-op driver, as a control: what serving the kubelet takes at least.
    pods = cluster.list(POD, BENCH_NAMESPACE, labelSelector=f"app={noop.DRIVER}")
    results.usage = usage.of_pods(cluster.list(POD, DRIVER_NAMESPACE, labelSelector=DRIVER_LABEL) + pods)
    results.watches = open_watches(log.lines(), DRIVER_NAMESPACE)


def run(options: argparse.Namespace) -> Results:
    cluster = Cluster("bench")
    nodes = sorted(node["metadata"]["name"] for node in cluster.list(NODE))
    results = Results(len(nodes), Samples(), datetime.now(UTC).isoformat(timespec="seconds"))
    try:
        if not options.controls_only:
            require_driver(cluster)
        say(f"no-op driver on {len(nodes)} nodes")
        make_namespace(cluster)
        noop.install(cluster, BENCH_NAMESPACE, nodes)
        measure(cluster, options, nodes, results)
        say("removing what the bench made")
        noop.remove(cluster)
        remove_namespace(cluster)
    except (BenchError, ApiError, AssertionError, ValueError, OSError) as error:
        results.failure = f"{type(error).__name__}: {error}"
    return results


def main() -> int:
    options = arguments()
    results = run(options)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    verdicts = judge(results)
    targets = [asdict(verdict) | {"kept": verdict.kept} for verdict in verdicts]
    options.out.write_text(json.dumps(results.to_json() | {"targets": targets}, indent=1) + "\n")
    print(report.text(results))
    print(f"\n{options.out}")
    if results.failure:
        print(f"bench: the run ended early: {results.failure}", file=sys.stderr)
        return 1
    return 1 if options.check and any(verdict.kept is False for verdict in verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
