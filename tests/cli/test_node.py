"""``plainchant node``: real processes on loopback, spoken to through their pipes."""

from __future__ import annotations

import base64
import contextlib
import gzip
import http.server
import json
import os
import queue
import random
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from plainchant.cli import main
from plainchant.live.config import parse_config

PATIENCE = 60.0
"""Seconds after which a test gives up; nothing is expected to take anything like it."""


class Running:
    """A node process, its output read by a thread (unless it is not to be read yet)."""

    def __init__(self, config: Path, *arguments: str, read: bool = True, stdin: Any = subprocess.PIPE) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "plainchant", "node", str(config), *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        if read:
            self.read()

    def read(self) -> None:
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.lines.put(line)
        self.lines.put(None)

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def say(self, value: dict[str, Any]) -> None:
        self.write(json.dumps(value).encode() + b"\n")

    def close_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def line(self) -> str:
        line = self.lines.get(timeout=PATIENCE)
        assert line is not None, f"the output has ended: {self.error()}"
        assert line.endswith(b"\n")
        return line[:-1].decode()

    def event(self) -> dict[str, Any]:
        event = json.loads(self.line())
        assert isinstance(event, dict)
        return event

    def until(self, found: Callable[[dict[str, Any]], bool]) -> list[dict[str, Any]]:
        """Events up to the one that is looked for."""
        events = [self.event()]
        while not found(events[-1]):
            events.append(self.event())
        return events

    def view(self, *members: str) -> dict[str, Any]:
        return self.until(lambda event: event["event"] == "view" and event["members"] == list(members))[-1]

    def rest(self) -> list[dict[str, Any]]:
        """Everything up to the end of the output."""
        return [json.loads(line) for line in iter(lambda: self.lines.get(timeout=PATIENCE), None)]

    def error(self) -> str:
        assert self.process.stderr is not None
        self.process.wait(PATIENCE)
        return self.process.stderr.read().decode()

    def ends(self, status: int) -> str:
        """Waits for the end; returns what was said on standard error."""
        error = self.error()
        assert self.process.returncode == status, error
        assert "Traceback" not in error
        return error

    def stop(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE)
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()


Start = Callable[..., Running]


@pytest.fixture
def config(tmp_path: Path) -> Path:
    """A configuration of three members at free ports."""
    sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(3)]
    for each in sockets:
        each.bind(("127.0.0.1", 0))
    peers = [f'{name} = "127.0.0.1:{each.getsockname()[1]}"\n' for name, each in zip("abc", sockets, strict=True)]
    for each in sockets:
        each.close()
    file = tmp_path / "bank.toml"
    # Who is busy for a moment is not to be excluded, and who is gone is to be missed soon.
    patience = '[parameters]\nsuspect_after = "2s"\npatience = "10s"\n'
    file.write_text('group = "bank"\n[peers]\n' + "".join(peers) + patience)
    return file


@pytest.fixture
def start(config: Path) -> Iterator[Start]:
    """Starts a node; all are ended when the test is."""
    running: list[Running] = []

    def begin(me: str, *arguments: str, config: Path = config, **options: Any) -> Running:
        running.append(Running(config, "--me", me, *arguments, **options))
        return running[-1]

    try:
        yield begin
    finally:
        for each in running:
            each.process.kill()
        for each in running:
            each.stop()


def of_messages(events: list[dict[str, Any]]) -> list[tuple[str, int, str]]:
    return [(event["sender"], event["seq"], event["payload"]) for event in events if event["event"] == "message"]


# --- a life -----------------------------------------------------------------------------------------------------------


def test_three_nodes_print_the_same_order_and_leave(start: Start) -> None:
    nodes = {name: start(name, "--json") for name in "abc"}
    for name, node in nodes.items():
        names = ["a", "b", "c"]
        first = {"event": "view", "group": "bank", "number": 1, "members": names, "joined": names, "left": {}, "me": name}
        assert node.event() == first
    for name, node in nodes.items():
        node.write(b"".join(json.dumps({"send": f"{name} {number}"}).encode() + b"\n" for number in range(200)))
    seen = {name: [node.event() for _ in range(600)] for name, node in nodes.items()}
    assert seen["a"] == seen["b"] == seen["c"]
    for name in "abc":
        assert [one for one in of_messages(seen["a"]) if one[0] == name] == [(name, n + 1, f"{name} {n}") for n in range(200)]

    any_bytes_make_the_round_trip(nodes["a"], nodes["c"])
    wrong_lines_are_answered(nodes["b"])

    nodes["c"].process.send_signal(signal.SIGTERM)
    assert nodes["c"].ends(0) == ""
    assert nodes["c"].rest()[-1] == {"event": "end", "code": "left", "reason": "c has left bank"}
    for name in "ab":
        left = nodes[name].view("a", "b")["left"]
        assert left == {"c": "c asked to leave"}

    nodes["b"].process.send_signal(signal.SIGINT)
    assert nodes["b"].ends(0) == ""
    nodes["a"].view("a")
    nodes["a"].say({"leave": True})
    assert nodes["a"].ends(0) == ""
    assert nodes["a"].rest()[-1]["code"] == "left"


def any_bytes_make_the_round_trip(sender: Running, receiver: Running) -> None:
    draw = random.Random(4)
    payloads = [b"", b"\n", b"\xff\x00\n", "grüße\u2028 \U0001f3b6".encode(), draw.randbytes(300_000)]
    payloads += [draw.randbytes(draw.randrange(100)) for _ in range(50)]
    for payload in payloads:
        sender.say({"send_base64": base64.b64encode(payload).decode()})
    received = []
    for event in receiver.until(lambda event: event.get("seq") == 200 + len(payloads)):
        received.append(event["payload"].encode() if "payload" in event else base64.b64decode(event["payload_base64"]))
    assert received == payloads


def wrong_lines_are_answered(sender: Running) -> None:
    wrong = [b"nonsense", b"[]", b"{}", b'{"send": 1}', b'{"send_base64": "*"}', b'{"sned": "x"}', b"", b"[" * 10_000]
    wrong += [b'{"send": "x", "leave": true}', b'{"leave": false}', b'{"send": "\\ud800"}', b'{"send": "\xff"}']
    for line in wrong:
        sender.write(line + b"\n")
    sender.say({"send": "the end"})
    events = sender.until(lambda event: event.get("payload") == "the end")
    errors = [event["text"] for event in events if event["event"] == "error"]
    assert [text.split(":")[0] for text in errors] == [f"line {200 + n} of the input" for n in range(1, len(wrong) + 1)]
    assert all('{"send": "text"}' in text for text in errors)


def test_who_is_killed_or_stopped_is_missed_with_a_reason(start: Start, tmp_path: Path) -> None:
    nodes = {name: start(name, "--json", "--trace", str(tmp_path / "spools")) for name in "abc"}
    for node in nodes.values():
        node.view("a", "b", "c")
    nodes["c"].process.kill()
    for name in "ab":
        gone = nodes[name].view("a", "b")
        assert list(gone["left"]) == ["c"]
        assert gone["left"]["c"]

    again = start("c", "--json")
    entered = again.event()
    assert entered["members"] == ["a", "b", "c#1"]
    assert entered["me"] == "c#1"
    again.say({"send": "I am back"})
    assert of_messages(nodes["a"].until(lambda event: event["event"] == "message")) == [("c#1", 1, "I am back")]
    assert sorted(path.name for path in (tmp_path / "spools" / "r0").iterdir()) == ["a", "b", "c"]

    os.kill(nodes["b"].process.pid, signal.SIGSTOP)
    nodes["a"].view("a", "c#1")
    os.kill(nodes["b"].process.pid, signal.SIGCONT)
    error = nodes["b"].ends(1)
    end = nodes["b"].rest()[-1]
    assert end["event"] == "end"
    assert end["reason"] in error
    assert end["code"] not in ("left", "closed")

    # The first signal leaves, which takes two who answer; the second does not wait for that.
    os.kill(again.process.pid, signal.SIGSTOP)
    nodes["a"].process.send_signal(signal.SIGTERM)
    nodes["a"].process.send_signal(signal.SIGINT)
    assert nodes["a"].ends(130) == ""


def test_text_is_lines_and_the_end_of_the_input_leaves_if_asked(start: Start) -> None:
    a, b, c = start("a", read=False), start("b", "--leave-at-eof"), start("c", "--leave-at-eof", stdin=subprocess.DEVNULL)
    assert b.line() == "* view 1: a, b, c (a joined; b joined; c joined)"
    assert c.ends(0) == ""
    assert b.line().startswith("* view 2: a, b (c is gone: ")
    assert [c.line() for _ in range(2)][1:] == ["* end: c has left bank"]
    b.write("one\n\n  two\tß\nthe bytes \xff\x1b[2J".encode("latin-1"))
    b.close_input()
    assert b.ends(0) == ""
    said = ["b: one", "b: ", "b:   two\t\\xdf", "b: the bytes \\xff\\x1b[2J"]
    assert [b.line() for _ in range(5)] == [*said, "* end: b has left bank"]

    # Nobody will read what a writes: it says so and goes.
    assert a.process.stdout is not None
    assert a.process.stdout.readline().startswith(b"* view 1: a, b, c (")
    a.process.stdout.close()
    a.write(b"x\n")
    assert "the output cannot be written: Broken pipe; a has left bank" in a.ends(1)


def test_a_reader_that_stops_loses_nothing_and_a_regular_file_is_an_input(start: Start, tmp_path: Path) -> None:
    count, filling = 20_000, "x" * 1_000
    lines = tmp_path / "lines"
    lines.write_text("".join(f"{number} {filling}\n" for number in range(count)))
    two = ("--set", 'members=["a", "b"]')
    with lines.open("rb") as source:
        a = start("a", *two, read=False)
        b = start("b", *two, "--leave-at-eof", stdin=source)
        assert b.line().startswith("* view 1: a, b (")
        # a's output takes the pipe's 64 KiB, 8 MiB wait in a, then the group waits: b's own lines stop coming back.
        got = 0
        with contextlib.suppress(queue.Empty):
            while True:
                line = b.lines.get(timeout=1.5)
                assert line is not None
                assert line.startswith(b"b: %d " % got), line[:100]
                got += 1
        assert got < count
        assert b.process.poll() is None
        a.read()
        assert a.line().startswith("* view 1")
        assert [a.line() for _ in range(count)] == [f"b: {number} {filling}" for number in range(count)]
        assert b.ends(0) == ""


# --- ends that are not clean --------------------------------------------------------------------------------------------


def test_a_group_that_does_not_answer(start: Start) -> None:
    node = start("a", "--json", "--timeout", "300ms")
    error = node.ends(3)
    assert "a could not enter group 'bank' in 0.3 s: " in error
    assert "not heard: b at 127.0.0.1:" in error
    (end,) = node.rest()
    assert (end["event"], end["code"]) == ("end", "join timeout")


def test_a_signal_gives_up_joining(start: Start, config: Path) -> None:
    node = start("a", "--json")
    wait_until_bound(node, parse_config(config.read_text(), overrides=["me=a"]).peers["a"])
    node.process.send_signal(signal.SIGTERM)
    assert node.ends(0) == ""
    (end,) = node.rest()
    assert end == {"event": "end", "code": "interrupted", "reason": "a was stopped before bank let it in"}


def wait_until_bound(node: Running, address: str) -> None:
    """Until the port is taken, by asking for it: then the node has begun."""
    host, port = address.split(":")
    for _ in range(10_000):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.bind((host, int(port)))
            except OSError:
                return
        assert node.process.poll() is None
        threading.Event().wait(0.02)
    raise AssertionError("it does not begin to listen")


# --- mistakes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "which configuration?"),
        (("nowhere.toml",), "there is no configuration file nowhere.toml"),
        (("bank.toml",), "bank.toml: me is missing"),
        (("bank.toml", "--me", "d"), 'me is "d", which is not among the peers'),
        (("bank.toml", "--me", "a", "--timeout", "5"), "--set timeout=5: timeout must be a duration"),
        (("bank.toml", "--me", "a", "--set", "parameters.resilence=1"), 'did you mean "resilience"?'),
        (("bank.toml", "--me", "a", "--set", "packet=3"), "64 to 65507 bytes"),
        (("bank.toml", "--me", "a", "--insecure", "--set", "peers.a=192.0.2.1:7"), "cannot listen at 192.0.2.1:7"),
        (("bank.toml", "--me", "a", "--set", "peers.a=192.0.2.1:7"), "has no key: anybody there could read, change and forge"),
        (("bank.toml", "--me", "a", "--key", "nowhere.key"), "the key file nowhere.key cannot be read"),
    ],
)
def test_mistakes_are_one_sentence(
    arguments: tuple[str, ...],
    problem: str,
    config: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(config.parent)
    assert main(("node", *arguments)) == 2
    said = capfd.readouterr()
    assert problem in said.err
    assert said.err.startswith("plainchant: ")
    assert said.err.count("\n") == 1
    assert said.out == ""


def test_a_taken_address_is_said(config: Path, capfd: pytest.CaptureFixture[str]) -> None:
    port = int(parse_config(config.read_text(), overrides=["me=a"]).peers["a"].split(":")[1])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("127.0.0.1", port))
        assert main(("node", str(config), "--me", "a")) == 2
    assert "is another member running there" in capfd.readouterr().err


def test_the_example_is_a_configuration(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(("node", "--example")) == 0
    assert parse_config(capsys.readouterr().out).group == "bank"


# --- looked after -----------------------------------------------------------------------------------------------------------


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes spans, and keeps what was posted."""

    posted: list[bytes]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.posted.append(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments: Any) -> None:
        pass


def test_it_tells_prometheus_and_a_collector(tmp_path: Path, start: Start) -> None:
    posted: list[bytes] = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Posted", (Collector,), {"posted": posted}))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free, socket.create_server(("127.0.0.1", 0)) as also:
        free.bind(("127.0.0.1", 0))
        address, port = free.getsockname(), also.getsockname()[1]
    file = tmp_path / "alone.toml"
    file.write_text(
        f'me = "a"\n[peers]\na = "{address[0]}:{address[1]}"\n[observe]\nmetrics = "{port}"\n'
        f'otlp = "http://127.0.0.1:{server.server_port}"\nmessages = 1.0\n'
    )
    try:
        node = start("a", "--json", config=file)
        node.view("a")
        node.say({"send": "hello"})
        node.until(lambda event: event["event"] == "message")
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE) as answer:
            assert 'plainchant_messages_delivered_total{group="g"} 1.0' in answer.read().decode()
        node.process.terminate()
        node.ends(0)
    finally:
        server.shutdown()
        server.server_close()
    told = b"".join(posted)
    for name in (b"plainchant.join", b"plainchant.view", b"plainchant.message", b"plainchant.leave"):
        assert name in told
