"""The frame of reproductions: sweeps as tasks, verdicts, pages."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from plainchant.core.model import UsageError
from plainchant_papers import NAMES, claims_of
from plainchant_papers.claims import FAILS, HOLDS, REMARK, Claim, Context, Figure, Measured, Result, Series, judge, measure
from plainchant_papers.page import draw, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def double(number: int) -> dict[str, int]:
    return {"doubled": 2 * number}


SERIES = (Series("measured", [1, 2, 3], [1, 4, 9]), Series("paper", [1, 3], [1, 9], from_document=True))
FIGURE = Figure("squares", "Squares", "n", "n²", SERIES)
GOOD = Measured("as <stated>", HOLDS, "because", [{"n": 1, "square": 1}, {"n": 2, "square": 4}], (FIGURE,))
CLAIM = Claim(1, "004", "2", "A claim.", "Measured so.", HOLDS, lambda context: GOOD)


def test_a_sweep_gives_the_function_of_every_item_in_their_order() -> None:
    assert Context(None).sweep(double, range(5)) == [double(number) for number in range(5)]


@pytest.mark.parametrize("count", [0, 1, 3, 50])
def test_a_sweep_on_spark_gives_the_same(spark: SparkSession, count: int) -> None:
    assert Context(spark).sweep(double, range(count)) == Context(None).sweep(double, range(count))


def test_what_several_claims_look_at_is_made_once() -> None:
    made: list[str] = []

    def make(context: Context) -> int:
        made.append("once")
        return 7

    context = Context(None)
    assert context.once("seven", make) == context.once("seven", make) == 7
    assert made == ["once"]


def test_a_quick_context_chooses_the_smaller_size() -> None:
    assert Context(None, quick=True).of(1, 100) == 1
    assert Context(None).of(1, 100) == 100


@pytest.mark.parametrize(
    ("holds", "nearly", "verdict"), [(True, True, HOLDS), (True, False, HOLDS), (False, True, REMARK), (False, False, FAILS)]
)
def test_a_verdict_follows_from_two_tests(holds: bool, nearly: bool, verdict: str) -> None:
    assert judge(holds=holds, nearly=nearly) == verdict


def test_a_verdict_that_is_not_on_record_is_news() -> None:
    (result,) = measure([CLAIM], Context(None))
    assert result.as_expected
    assert not Result(CLAIM, Measured("otherwise", FAILS, "because")).as_expected


def test_a_result_as_json_has_the_agreed_keys() -> None:
    (result,) = measure([CLAIM], Context(None))
    assert result.to_json() == {
        "number": 1,
        "seed": "004",
        "section": "2",
        "claim": "A claim.",
        "measured": "as <stated>",
        "verdict": "holds",
        "why": "because",
    }


def test_the_page_has_everything_in_one_file_and_the_data_beside_it(tmp_path: Path) -> None:
    write(tmp_path, {"sequencer": measure([CLAIM], Context(None))}, quick=True)
    page = (tmp_path / "index.html").read_text()
    assert "as &lt;stated&gt;" in page
    assert "<svg" in page
    assert "src=" not in page, "nothing is fetched"
    rows = list(csv.DictReader((tmp_path / "data" / "claim-001.csv").read_text().splitlines()))
    assert rows == [{"n": "1", "square": "1"}, {"n": "2", "square": "4"}]
    (claim,) = json.loads((tmp_path / "claims.json").read_text())["claims"]
    assert (claim["how"], claim["expected"]) == ("Measured so.", "holds")
    assert (tmp_path / "figures" / "squares.svg").is_file()


def test_the_same_figure_is_the_same_bytes() -> None:
    assert draw(FIGURE) == draw(FIGURE)


def texts(figure: Figure) -> list[str]:
    return re.findall("<text [^>]*>([^<]*)</text>", draw(figure))


def test_lines_that_lie_on_each_other_are_one_line_with_both_labels() -> None:
    several = (*SERIES, Series("again", [1, 2, 3], [1, 4, 9]), Series("other", [1, 2, 3], [1, 4, 8]))
    assert texts(dataclasses.replace(FIGURE, series=several))[-3:] == ["measured and again", "paper", "other"]


def test_a_logarithmic_axis_has_plain_numbers() -> None:
    series = (Series("measured", [6, 50, 400], [20_000, 300, 3]),)
    figure = Figure("steep", "Steep", "interval", "delay", series, log_x=True, log_y=True)
    found = texts(figure)
    assert found[:4] == ["6", "50", "400", "interval"], "what was measured"
    assert found[4:-3] == [f"{digit * 10**power:,}" for power in range(5) for digit in (1, 2, 5)][1:-1]


def test_steps_have_no_slopes() -> None:
    """The line goes on at its value, and then straight up."""
    figure = Figure("stairs", "Stairs", "x", "y", (Series("one", [0, 10], [1, 2]),))
    path = r'<path d="(M [^"]*)" clip-path="[^"]*" style="fill: none; stroke: #1f77b4'
    (slope,) = re.findall(path, draw(figure))
    (stairs,) = re.findall(path, draw(dataclasses.replace(figure, steps=True)))
    assert (len(slope.split("\n")), len(stairs.split("\n"))) == (3, 4), "with the line's end"


def test_what_cannot_be_reproduced_is_refused_with_what_can() -> None:
    with pytest.raises(UsageError, match="sequencer"):
        claims_of("paxos")
    with pytest.raises(UsageError, match="1 to 22"):
        claims_of("sequencer", [99])


@pytest.mark.parametrize("name", NAMES)
def test_claims_are_numbered_and_say_everything(name: str) -> None:
    claims = claims_of(name)
    numbers = [claim.number for claim in claims]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    for claim in claims:
        assert len(claim.paper) == 3
        assert claim.section
        assert claim.claim.endswith(".")
        assert claim.how.endswith(".")
