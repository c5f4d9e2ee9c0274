"""``plainchant reproduce``: what it prints, writes and refuses. (Claims run in this process: Spark has its own tests.)"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from plainchant_papers import DOCUMENTS, claims_of_all, sequencer

command = import_module("plainchant_papers.command")


@pytest.fixture(autouse=True)
def without_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    @contextlib.contextmanager
    def none(master: str | None, remote: str | None, **options: object) -> Iterator[None]:
        yield None

    monkeypatch.setattr(command, "spark_for", none)


def call(*arguments: str) -> Result:
    app = typer.Typer()
    app.command()(command.reproduce)
    return CliRunner().invoke(app, list(arguments))


def test_a_table_with_measurement_and_verdict() -> None:
    result = call("sequencer", "--quick", "--claim", "4", "--claim", "17")
    assert result.exit_code == 0, result.output
    assert "purged up to 6" in " ".join(result.stdout.split()) or "6;" in result.stdout
    assert "2 claims (holds: 2, holds with a remark: 0, does not hold: 0)" in result.stdout


def test_json_has_exactly_the_claims() -> None:
    result = call("sequencer", "--quick", "--claim", "11", "--json")
    claims = json.loads(result.stdout)
    assert list(claims) == ["claims"]
    (claim,) = claims["claims"]
    assert claim["seed"] == "004"
    assert claim["verdict"] == "holds with a remark"
    assert {"seed", "section", "claim", "measured", "verdict"} <= set(claim)


def test_a_claim_that_does_not_hold_is_a_result_and_no_failure() -> None:
    result = call("sequencer", "--quick", "--claim", "20")
    assert result.exit_code == 0
    assert "does not hold: 1" in result.stdout


def test_a_verdict_that_is_not_on_record_ends_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = [dataclasses.replace(claim, expected="holds") for claim in sequencer.CLAIMS]
    monkeypatch.setattr(sequencer, "CLAIMS", tuple(changed))
    result = call("sequencer", "--quick", "--claim", "11")
    assert result.exit_code == 1
    assert "claim 11 holds with a remark, but 'holds' is on record" in result.stderr


def test_out_has_a_page_figures_and_data(tmp_path: Path) -> None:
    out = tmp_path / "result"
    result = call("sequencer", "--quick", "--claim", "16", "--out", str(out))
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == ["claims.json", "data", "figures", "index.html"]


def test_without_a_name_all_documents_are_in_one_table_and_on_one_page(tmp_path: Path) -> None:
    out = tmp_path / "result"
    numbers = [4, 16, 24, 72, 88, 102]
    result = call("--quick", *(word for number in numbers for word in ("--claim", str(number))), "--out", str(out))
    assert result.exit_code == 0, result.output
    assert "6 claims (" in result.stdout
    for name in DOCUMENTS:
        assert f" {name} " in result.stdout
    assert [claim["number"] for claim in json.loads((out / "claims.json").read_text())["claims"]] == numbers
    page = (out / "index.html").read_text()
    assert [page.index(f"id='claim-{number}'") for number in numbers] == sorted(page.index(f"id='claim-{n}'") for n in numbers)
    assert all(f"<code>{name}</code> (paper 00" in page for name in DOCUMENTS)
    assert {path.name.partition("-")[0] for path in (out / "figures").iterdir()} <= set(DOCUMENTS)


def test_all_documents_have_every_claim_once() -> None:
    numbers = [claim.number for claims in claims_of_all().values() for claim in claims]
    assert numbers == list(range(1, len(numbers) + 1))


def test_out_that_is_occupied_is_refused_before_anything_runs(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")
    result = call("sequencer", "--quick", "--claim", "4", "--out", str(tmp_path))
    assert result.exit_code == 2
    assert "is not empty" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["paxos"], "there is no 'paxos' to reproduce; there are: sequencer"),
        (["--claim", "109"], "no document has a claim 109; their claims are 1 to 108"),
        (["sequencer", "--claim", "23"], "sequencer has no claim 23; its claims are 1 to 22"),
    ],
)
def test_wrong_input_is_a_sentence(arguments: list[str], sentence: str) -> None:
    result = call(*arguments)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert "Traceback" not in result.output


def test_without_matplotlib_a_page_is_refused_before_anything_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    result = call("sequencer", "--quick", "--claim", "4", "--out", str(tmp_path / "result"))
    assert result.exit_code == 2
    assert "pip install 'plainchant[lab]'" in result.stderr
