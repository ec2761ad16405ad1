"""Addresses, links and routes; all of them inside the lab's namespaces.

The control plane's namespace holds a bridge with one port a node. Nodes send
everything that is not theirs to the bridge's address, which routes pod networks
to their nodes: the API server reaches webhook pods by the same routes.
"""

from __future__ import annotations

from lab.namespaces import Namespaces

BRIDGE = "lab"
CONTROL_ADDRESS = "10.99.0.1"
PREFIX = 16
API_PORT = 6443
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVICE_ADDRESS = "10.96.0.1"
POD_NETWORK = "10.244.0.0/16"
MAX_NODES = 200


def node_address(index: int) -> str:
    return f"10.99.1.{index}"


def pod_network(index: int) -> str:
    return f"10.244.{index}.0/24"


def set_up_control(control: Namespaces) -> None:
    """Makes the bridge; to be done once for a new namespace."""
    _batch(
        control,
        "control plane network",
        "link set lo up",
        f"link add {BRIDGE} type bridge",
        f"address add {CONTROL_ADDRESS}/{PREFIX} dev {BRIDGE}",
        f"link set {BRIDGE} up",
    )
    _sysctl(control, "ip_forward", "1")
    # Nodes shall keep using the gateway: its routes follow nodes that come and go.
    for scope in ("all", BRIDGE):
        _sysctl(control, f"conf/{scope}/send_redirects", "0")


def set_up_node(control: Namespaces, node: Namespaces, name: str, index: int) -> None:
    """Connects a new node namespace to the bridge."""
    port = f"node{index}"
    _free(control, f"network of {name}", port)
    _batch(
        control,
        f"network of {name}",
        f"link add {port} type veth peer name eth0 netns {node.holder}",
        f"link set {port} master {BRIDGE} up",
        f"route replace {pod_network(index)} via {node_address(index)}",
    )
    _batch(
        node,
        f"network of {name}",
        "link set lo up",
        f"address add {node_address(index)}/{PREFIX} dev eth0",
        "link set eth0 up",
        f"route add default via {CONTROL_ADDRESS}",
    )
    _sysctl(node, "ip_forward", "1")


def _free(control: Namespaces, component: str, port: str) -> None:
    """The kernel takes the namespace of a node that ended apart some time later, and with it the other end of the node's link."""
    script = 'ip link del "$1" 2>/dev/null || ! ip link show "$1" >/dev/null 2>&1'
    control.run(["/bin/sh", "-c", script, "free", port], component=component)


def _batch(namespaces: Namespaces, component: str, *commands: str) -> None:
    for command in commands:
        namespaces.run(["ip", *command.split()], component=component)


def _sysctl(namespaces: Namespaces, name: str, value: str) -> None:
    script = 'echo "$2" > "/proc/sys/net/ipv4/$1"'
    command = ["/bin/sh", "-c", script, "sysctl", name, value]
    namespaces.run(command, component=f"sysctl net/ipv4/{name}")
