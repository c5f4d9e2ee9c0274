"""Where processes are: nodes and processors, by their names or by the parameter ``nodes``."""

from __future__ import annotations

from typing import Final

from ...core.model import ProcessId
from ...core.names import place_of
from .parameters import Parameters

ALONE: Final = "node"  # The node of processes whose names say none: all of them are together


def node_of(parameters: Parameters, process: ProcessId) -> str:
    """The node that a process is on.

    >>> [node_of(Parameters(nodes={"p9": "n2"}), name) for name in ("n1.p3", "n1.c2.p3", "p9#1", "p1")]
    ['n1', 'n1', 'n2', 'node']
    """
    name = place_of(process)
    given = parameters.nodes.get(name)
    if given is not None:
        return given
    node, dot, _ = name.partition(".")
    return node if dot else ALONE


def processor_of(parameters: Parameters, process: ProcessId) -> str:
    """The processor that a process is on: that of its name's first two parts of three, or one of its own.

    >>> [processor_of(Parameters(), name) for name in ("n1.c2.p3#2", "n1.p3", "p1")]
    ['n1.c2', 'n1.p3', 'p1']
    """
    name = place_of(process)
    return name.rpartition(".")[0] if name.count(".") >= 2 else name


def is_networked(parameters: Parameters, process: ProcessId) -> bool:
    """Whether a process can send packets to other nodes."""
    return not parameters.networked or place_of(process) in parameters.networked
