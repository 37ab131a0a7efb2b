"""Finds and reads the file of a learned agent, and says which configurations want one."""

from __future__ import annotations

from typing import Any

from cluster.config.compose import build
from cluster.output.storage import Storage
from ranking.checkpoint import from_bytes
from ranking.errors import BadInput
from rl.mixture import FORMAT as MIXTURE
from rl.mixture import MixtureAgent
from rl.trained import TrainedAgent
from sampling.retrieval.tfidf import TfIdf

FILE = "agent.safetensors"


def checkpoint_of(config: dict[str, Any]) -> str | None:
    """The folder whose agent a configuration uses, as its policy or as its selector; None where it uses none."""
    for part in ("policy", "selector"):
        if config[part].get("checkpoint"):
            return str(config[part]["checkpoint"])
    return None


def learner_of(config: dict[str, Any]) -> str | None:
    """Which part of a run acts by an agent that is still to be learned: policy, selector, or None."""
    for part in ("policy", "selector"):
        if "checkpoint" in config[part] and not config[part]["checkpoint"]:
            return part
    return None


def documents_of(config: dict[str, Any]) -> int | None:
    """s_d, where a configuration's agent picks documents; None where it chooses functions, or there is no agent."""
    if checkpoint := checkpoint_of(config):
        return read_agent(checkpoint).documents
    documents: int | None = config.get("actions", {}).get("documents")
    return documents


def has_agent(checkpoint: str) -> bool:
    """Whether there is a learned agent in a folder."""
    return FILE in Storage(checkpoint).names()


def agent_content(checkpoint: str) -> bytes:
    """The bytes of a learned agent.

    Raises:
        BadInput: where there is none.
    """
    content = Storage(checkpoint).read(FILE)
    if content is None:
        raise BadInput(f"there is no {FILE}", checkpoint, "name the folder of a `pyrite learn` that has begun to learn")
    return content


def read_agent(checkpoint: str) -> TrainedAgent | MixtureAgent:
    """The agent of a folder: one that chooses functions or documents, or one that mixes functions."""
    content, where = agent_content(checkpoint), f"{checkpoint}/{FILE}"
    state = from_bytes(content, where)
    mixes = isinstance(state, dict) and state.get("agent") == MIXTURE
    return MixtureAgent.from_bytes(content, where) if mixes else TrainedAgent.from_bytes(content, where)


def check_agent(config: dict[str, Any]) -> None:
    """See that a run's agent is there and fits it; nothing where it has none.

    Raises:
        BadInput: where it was learned for other functions or smaller batches.
    """
    checkpoint = checkpoint_of(config)
    if checkpoint is None:
        return
    agent = read_agent(checkpoint)
    part = "selector" if agent.documents else "policy"
    if config[part].get("checkpoint") != checkpoint:
        raise BadInput(f"this agent is a {part}", checkpoint, f"give {part}=learned {part}.checkpoint={checkpoint}")
    missing = [name for name in agent.functions if name not in config["function"]]
    if missing or len(agent.functions) != len(config["function"]):
        raise BadInput(
            f"the agent chooses among {agent.functions}, not {list(config['function'])}",
            checkpoint,
            f"give function=[{','.join(agent.functions)}]",
        )
    if isinstance(agent, MixtureAgent):
        return
    if agent.documents:
        check_candidates(config, agent.documents)
    if config["training"]["batch_size"] > agent.pairs:
        raise BadInput(
            f"the agent reads batches of up to {agent.pairs} pairs",
            "training.batch_size",
            f"give training.batch_size={agent.pairs}",
        )


def check_candidates(config: dict[str, Any], documents: int) -> None:
    """See that there are documents to pick from: those nearest to each query in tf·idf space.

    Raises:
        BadInput: where the functions are others, or their lists too short.
    """
    functions = config["function"]
    if len(functions) != 1 or not isinstance(build(next(iter(functions.values()))), TfIdf):
        raise BadInput(
            f"documents are picked from the lists of tfidf, not of {', '.join(functions)}",
            "function",
            "give policy=fixed function=tfidf",
        )
    name, node = next(iter(functions.items()))
    if node["depth"] < documents:
        raise BadInput(
            f"the agent picks from {documents} documents and the lists have {node['depth']}",
            f"function.{name}.depth",
            f"give function.{name}.depth={documents} or more",
        )
