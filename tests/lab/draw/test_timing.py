"""Timing diagrams of operations on common memory."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from plainchant.cli import main
from plainchant.core.model import MS, UsageError
from plainchant.lab.draw.diagram import diagram
from plainchant.lab.draw.timing import timing, timing_diagram
from plainchant.scenario import find, load
from plainchant.sim import run_scenario
from plainchant.trace import TraceBuffer

from ..explain.mailboxes import late_sender, sending

TRACE = sending().table()
MESSAGE = ("g", "p1", 1)


def boxes(picture: str, style: str) -> list[tuple[float, float]]:
    """From where to where boxes of a style reach."""
    found = re.findall(rf'class="box {style}(?: failed)?" x="([\d.]+)" y="[\d.]+" width="([\d.]+)"', picture)
    # The last one of each style stands in the legend.
    return [(float(x), float(x) + float(width)) for x, width in found][:-1]


def test_a_send_is_all_writes_and_then_all_flags() -> None:
    picture = timing_diagram(TRACE, message=MESSAGE)
    writes, flags = boxes(picture, "write"), boxes(picture, "flag")
    assert len(writes) == len(flags) == 2
    ends = [*writes, *flags]
    assert all(one[1] == pytest.approx(other[0], abs=0.2) for one, other in pairwise(ends))
    lengths = [end - begin for begin, end in ends]
    assert max(lengths) - min(lengths) < 0.3, "each took as long"


def test_a_receive_is_decisions_reading_and_flags_at_each_receiver() -> None:
    shown = timing(TRACE, message=MESSAGE)
    for name in ("p1", "p2"):
        mine = [each.name for each in shown.operations if each.process == name and each.name not in ("look", "write", "flag")]
        assert mine == ["decide", "read", "finish", "finish"]
    assert [text for _, text in shown.lines] == ["T", "T + \N{GREEK CAPITAL LETTER DELTA}s"]
    assert shown.lines[0][0] == 1 * MS
    assert shown.first < 1 * MS < 3.1 * MS < shown.last < 4 * MS


def test_it_is_a_picture_that_says_which_copy_was_lost() -> None:
    picture = timing_diagram(TRACE, message=MESSAGE)
    ET.fromstring(picture)
    assert picture == timing_diagram(TRACE, message=MESSAGE)
    assert "copy 1 was lost" in picture
    assert "has sent" in picture
    assert picture.count('class="box flag failed"') == 1


def test_operations_at_the_same_time_stand_below_each_other_and_idle_time_is_cut() -> None:
    picture = timing_diagram(TRACE, message=MESSAGE)
    decides = re.search(r'class="box decide" x="[\d.]+" y="([\d.]+)"', picture)
    looks = re.search(r'class="box look" x="[\d.]+" y="([\d.]+)"', picture)
    assert decides is not None
    assert looks is not None
    assert decides[1] != looks[1]
    assert "2 looks at the memory meanwhile are not drawn" in picture
    left_out = re.search(r"<title>(.+) are left out</title></line>", picture)
    assert left_out is not None
    assert f"</title>{left_out[1]}</text>" in picture, "how much is cut out can be read, too"


def test_a_stretch_and_a_process_can_be_chosen() -> None:
    shown = timing(TRACE, process="p2", first=2 * MS, last=round(2.3 * MS))
    assert shown.lanes == ("p2",)
    assert {each.name for each in shown.operations} == {"decide", "look"}


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"message": ("g", "p1", 9)}, "there is no message g/p1/9"),
        ({"first": 50 * MS}, "there are no operations in this stretch"),
    ],
)
def test_what_cannot_be_drawn_is_refused(options: dict[str, object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        timing_diagram(TRACE, **options)  # type: ignore[arg-type]


def test_a_trace_without_operations_says_how_to_get_them() -> None:
    with pytest.raises(UsageError, match=r"memory\.operations=true"):
        timing_diagram(late_sender().table())


def test_the_command_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, file = tmp_path / "trace.parquet", tmp_path / "send.svg"
    pq.write_table(TRACE, trace)
    assert main(["trace", str(trace), "--timing", str(file), "--message", "g/p1/1"]) == 0
    assert f"drawn in {file}" in capsys.readouterr().out
    assert file.read_text(encoding="utf-8") == timing_diagram(TRACE, message=MESSAGE)
    assert main(["trace", str(trace), "--timing", str(file)]) == 2
    assert "exists; name another file with --timing" in capsys.readouterr().err
    assert main(["trace", str(trace), "--timing", "x.svg", "--kind", "send"]) == 2
    assert "--timing goes with" in capsys.readouterr().err


def test_two_runs_are_refused() -> None:
    renamed = TRACE.set_column(0, "run", pa.array(["r1"] * TRACE.num_rows))
    with pytest.raises(UsageError, match="choose one with --run"):
        timing_diagram(pa.concat_tables([TRACE, renamed]))


def test_the_space_time_diagram_has_late_operations_rejections_and_lost_modules() -> None:
    picture = diagram(late_sender().table())
    ET.fromstring(picture)
    assert "fault: memory module 1 crashes" in picture
    assert "an operation took longer than its bound" in picture
    assert "decides to reject a message" in picture
    assert "p1 rejects g/p2/1" in picture
    assert picture.count("fault: timing") == 0, "it has a mark of its own"
    assert 'class="untimely"' in picture


def test_a_simulated_send_keeps_its_bound_in_the_picture() -> None:
    settings = ["protocol=mailbox", "members=3", "duration=20ms", "memory.operations=true", 'workload.0.senders=["p2"]']
    trace = TraceBuffer()
    run_scenario(load(find("first-steps"), settings), trace)
    table = trace.table()
    message = ("g", "p2", 1)
    shown = timing(table, message=message)
    send = [each for each in shown.operations if each.process == "p2" and each.name in ("write", "flag")][:4]
    assert [(each.name, each.copy) for each in send] == [("write", 0), ("write", 1), ("flag", 0), ("flag", 1)]
    (begin, _), (end, _), *_ = shown.lines
    assert begin <= send[0].began
    assert send[-1].ended <= end
    ET.fromstring(timing_diagram(table, message=message))
