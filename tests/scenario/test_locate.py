"""Every key of a TOML text is found on its line."""

from __future__ import annotations

import pytest

from plainchant.scenario.locate import lines, split_key

TEXT = '''\
seed = 1 # a comment with [brackets] = and "quotes"
about = """
two [lines]
of = text"""
"quoted key" = 'single'
list = [
  "a", # first
  ["b", "c"],
  {x = 1, y = [2,
   3]},
]

[network]
loss = 0.1
delay.uniform = ["1ms", "2ms"]

[[network.link]]
source = "p1"
[[network.link]]
source = "p2"
  [network.link.delay]
  constant = "1ms"

[[fault]]
kind = "crash"
'''


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("seed",), 1),
        (("about",), 2),
        (("quoted key",), 5),
        (("list",), 6),
        (("list", 0), 7),
        (("list", 1, 1), 8),
        (("list", 2, "y"), 9),
        (("list", 2, "y", 1), 10),
        (("network",), 13),
        (("network", "loss"), 14),
        (("network", "delay", "uniform", 1), 15),
        (("network", "link"), 17),
        (("network", "link", 0, "source"), 18),
        (("network", "link", 1), 19),
        (("network", "link", 1, "delay", "constant"), 22),
        (("fault", 0), 24),
        (("fault", 0, "kind"), 25),
    ],
)
def test_a_key_is_found_on_its_line(path: tuple[str | int, ...], line: int) -> None:
    assert lines(TEXT)[path] == line


def test_escaped_quotes_and_quotes_before_the_end_of_a_long_text() -> None:
    found = lines('a = "x \\" y = 1"\nb = """q""""\nc = \'\'\'\n\'\'\'\nd = 1')
    assert found == {("a",): 1, ("b",): 2, ("c",): 3, ("d",): 5}


def test_dotted_keys_are_split_as_toml_does() -> None:
    assert split_key('groups."a.b"') == ("groups", "a.b")
    assert split_key("fault.0.at") == ("fault", "0", "at")
