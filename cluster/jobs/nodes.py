"""Lists the machines of a cluster."""

from __future__ import annotations

from ranking.errors import BadInput

MOST = 10_000
"""Nodes that are listed; Ray knows of no larger cluster."""


def addresses(url: str) -> set[str]:
    """IP addresses of the nodes that are alive.

    Args:
        url: of the job server.

    Raises:
        BadInput: where the server does not say.
    """
    from ray.util.state import list_nodes
    from ray.util.state.exception import RayStateApiException

    try:
        nodes = list_nodes(address=url, limit=MOST, raise_on_missing_output=False)
    except RayStateApiException as error:
        reason = " ".join(str(error).split())[:200]
        raise BadInput(f"can't list its nodes ({reason})", url, "is the cluster well?") from None
    return {str(node["node_ip"]) for node in nodes if node["state"] == "ALIVE"}


def are_this_machine(found: set[str]) -> bool:
    """Whether all of these addresses belong to the machine that this process runs on."""
    import psutil  # Ray brings it

    own = {address.address.partition("%")[0] for card in psutil.net_if_addrs().values() for address in card}
    return found <= own
