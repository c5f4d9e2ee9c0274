"""A protocol that takes the network for a lossless stream is not given one that is not."""

from __future__ import annotations

import pytest

from plainchant.core.model import ScenarioError
from plainchant.scenario import parse


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ("[network]\nloss = 0.1", "loss"),
        ('[network]\ndelay = {uniform = ["1ms", "2ms"]}', "a delay that varies"),
        ('[[network.link]]\nsource = "p1"\nreorder = 0.2', "reorder"),
        ('[[fault]]\nkind = "partition"\nat = "1ms"\nparts = [["p1"], ["p2"]]', "a partition"),
        ("[random]\ncut = 1.0", "a cut"),
    ],
)
def test_a_network_that_loses_is_refused_where_the_protocol_was_told_that_it_does_not(lines: str, what: str) -> None:
    text = f'protocol = "newtop"\nmembers = 2\nparameters.transport = "fifo"\n[[workload]]\nrate = 10\n{lines}\n'
    with pytest.raises(ScenarioError, match=f'{what}.* is what parameters.transport = "fifo" excludes'):
        parse(text)
    parse(text.replace('"fifo"', '"lossy"'))
