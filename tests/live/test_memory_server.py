"""The mailbox server between real processes: who is connected, who has died, and that nothing is left behind."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plainchant.core.memory import FAILED, Connection, Entry, Layout
from plainchant.core.model import UsageError
from plainchant.live.memory import server as server_module
from plainchant.live.memory.segments import CommonMemoryError, Segment
from plainchant.live.memory.server import (
    Attachment,
    Found,
    MailboxServer,
    Refused,
    Register,
    check_root,
    clean,
    default_root,
    mailboxes,
    namespace_of,
)

LAYOUT = Layout(copies=2, places=3, slots=2, room=64)
REPOSITORY = Path(__file__).parents[2]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "mailboxes"


@pytest.fixture
def attach(root: Path) -> Iterator[Callable[..., Attachment]]:
    """Connects a process, as if it were one of its own: it is killed with ``let_go``; what is connected at the end goes."""
    attached: list[Attachment] = []

    def make(process: str, mailbox: str = "m", namespace: str = "n", epoch: int = 1) -> Attachment:
        attached.append(MailboxServer(namespace, root=root).connect(mailbox, LAYOUT, process, epoch))
        return attached[-1]

    yield make
    for each in attached:
        each.abandon()


OTHER = """
import os, signal, sys
from pathlib import Path
from plainchant.live.memory.server import MailboxServer
from plainchant.core.memory import Layout

def fork(copy):
    if os.fork():
        signal.pause()
    print("forked", flush=True)
    if sys.stdin.readline():
        print("the child lives", flush=True)
    os._exit(0)

attached = MailboxServer("n", root=Path(sys.argv[1])).connect("m", Layout(2, 3, 2, 64), sys.argv[2], 1)
print("connected", flush=True)
if sys.stdin.readline() == "fork\\n":
    attached.segments[0].operate(fork)
"""


@contextlib.contextmanager
def another(root: Path, process: str) -> Iterator[subprocess.Popen[str]]:
    """A process of its own that is connected."""
    command = [sys.executable, "-c", OTHER, str(root), process]
    started = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    try:
        assert started.stdout is not None
        assert started.stdout.readline() == "connected\n"
        yield started
    finally:
        started.kill()
        started.wait()
        for pipe in (started.stdin, started.stdout):
            if pipe is not None:
                pipe.close()


def ask(process: subprocess.Popen[str], request: str) -> str:
    """Writes a line to a process, and reads its answer."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{request}\n")
    process.stdin.flush()
    return process.stdout.readline().rstrip()


def kill(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()


# --- who is connected ---------------------------------------------------------------------------------------------------


def test_places_are_the_lowest_that_are_free(root: Path, attach: Callable[..., Attachment]) -> None:
    a, b, c = attach("a", epoch=7), attach("b", epoch=8), attach("c", epoch=9)
    assert [each.port.place for each in (a, b, c)] == [0, 1, 2]
    assert {each.port.epoch for each in (a, b, c)} == {7}
    with pytest.raises(Refused, match="all 3 places of mailbox 'm' are taken"):
        attach("d")
    b.disconnect()
    assert attach("d").port.place == 1


def test_all_of_them_share_one_memory(attach: Callable[..., Attachment]) -> None:
    a, b = attach("a"), attach("b")
    a.segments[1].operate(lambda copy: copy.put(0, Entry(5, 0, "a")))
    assert b.segments[1].operate(lambda copy: copy.entry(0)) == Entry(5, 0, "a")
    assert b.segments[0].operate(lambda copy: copy.entry(0)) is None


def test_mailboxes_of_other_names_and_namespaces_are_others(root: Path, attach: Callable[..., Attachment]) -> None:
    first = attach("a")
    for other in (attach("a", mailbox="k"), attach("a", namespace="o")):
        assert other.port.place == 0
        first.segments[0].operate(lambda copy: copy.connect(0, Connection("a")))
        assert other.segments[0].operate(lambda copy: copy.connection(0)) is None
    assert MailboxServer("n", root=root).names() == ["k", "m"]
    assert MailboxServer("o", root=root).names() == ["m"]
    assert MailboxServer("p", root=root).names() == []


def test_a_directory_says_who_is_connected_in_the_order_of_connecting(root: Path, attach: Callable[..., Attachment]) -> None:
    server = MailboxServer("n", root=root)
    assert server.directory() == {}
    first = attach("c")
    attach("b")
    attach("a", mailbox="k")
    attach("a", namespace="o")
    assert server.directory() == {"k": ("a",), "m": ("c", "b")}
    first.disconnect()
    attach("d")
    third = attach("c")
    assert server.directory() == {"k": ("a",), "m": ("b", "d", "c")}
    third.abandon()
    assert server.directory() == {"k": ("a",), "m": ("b", "d", "c")}
    server.disconnect("m", -1, "c")
    assert server.directory() == {"k": ("a",), "m": ("b", "d")}
    assert MailboxServer("n", root=root).directory() == server.directory()


def test_a_directory_reads_again_only_what_has_changed(
    root: Path, attach: Callable[..., Attachment], monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[str] = []
    read_register = server_module.read_register

    def counted(directory: Path) -> Register | None:
        reads.append(directory.name)
        return read_register(directory)

    monkeypatch.setattr(server_module, "read_register", counted)
    monkeypatch.setattr(server_module, "FRESH", 1 << 62)
    attach("a")
    attach("a", mailbox="k")
    attach("a", namespace="o")
    server = MailboxServer("n", root=root)

    def read() -> tuple[int, dict[str, tuple[str, ...]]]:
        reads.clear()
        found = server.directory()
        return len(reads), found

    both = {"k": ("a",), "m": ("a",)}
    assert read() == (3, both)
    assert read() == (2, both), "what was written just now may have been written again; a folder of another's never is ours"
    monkeypatch.setattr(server_module, "FRESH", -1 << 62)
    assert read() == (2, both)
    assert read() == (0, both)
    attach("b")
    assert read() == (1, both | {"m": ("a", "b")})
    attach("b", namespace="p")
    assert read() == (1, both | {"m": ("a", "b")})
    assert read() == (0, both | {"m": ("a", "b")})


def test_nodes_have_memory_of_their_own(root: Path, attach: Callable[..., Attachment]) -> None:
    first = attach("n1.a", namespace=namespace_of("n", "n1"))
    other = attach("n2.a", namespace=namespace_of("n", "n2"))
    assert (first.port.place, other.port.place) == (0, 0)
    assert MailboxServer(namespace_of("n", "n1"), root=root).directory() == {"m": ("n1.a",)}
    MailboxServer(namespace_of("n", "n1"), root=root).crash_module(1)
    assert [segment.has_crashed for segment in (*first.segments, *other.segments)] == [True, False, False, False]
    other.abandon()
    assert first.failures() == []


def test_what_the_server_refuses(root: Path, attach: Callable[..., Attachment]) -> None:
    attach("a")
    server = MailboxServer("n", root=root)
    with pytest.raises(Refused, match="a process named a is connected"):
        attach("a")
    with pytest.raises(Refused, match="has 2 copies, 3 places, 2 slots and room for 64 bytes, and b wants 1 copies"):
        server.connect("m", Layout(1, 3, 2, 64), "b", 1)
    with pytest.raises(Refused, match="there is a mailbox 'm' already"):
        server.create("m", LAYOUT, 1)
    with pytest.raises(Refused, match="is in use by a"):
        server.remove("m")
    with pytest.raises(Refused, match="there is no mailbox 'x'"):
        server.remove("x")


def test_a_mailbox_that_nobody_has_connected_to_stays_until_it_is_removed(root: Path) -> None:
    server = MailboxServer("n", root=root)
    server.create("m", LAYOUT, 5)
    assert clean(root) == []
    attached = server.connect("m", LAYOUT, "a", 9)
    assert attached.port.epoch == 5
    attached.disconnect()
    assert not root.exists()
    server.create("m", LAYOUT, 5)
    server.remove("m")
    assert not root.exists()


def test_a_place_without_room_for_its_messages_is_not_taken(
    root: Path, attach: Callable[..., Attachment], monkeypatch: pytest.MonkeyPatch
) -> None:
    attach("a")
    (found,) = mailboxes(root)
    before = set(os.listdir(found.directory))

    def full(file: int, start: int, length: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "posix_fallocate", full)
        with pytest.raises(CommonMemoryError, match="no room for 128 bytes"):
            attach("b")
    assert set(os.listdir(found.directory)) == before
    assert attach("b").port.place == 1


def test_a_mailbox_that_cannot_be_made_leaves_nothing(root: Path) -> None:
    with pytest.raises(UsageError, match="1 to 62 places"):
        MailboxServer("n", root=root).connect("m", Layout(2, 63, 1, 1), "a", 1)
    assert not root.exists()


def test_a_mailbox_whose_first_place_has_no_room_leaves_nothing(
    root: Path, attach: Callable[..., Attachment], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(segment: Segment, place: int) -> None:
        raise CommonMemoryError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(Segment, "reserve", full)
        with pytest.raises(CommonMemoryError, match="no room"):
            attach("a")
    assert not root.exists()
    # One that is there already stays.
    MailboxServer("n", root=root).create("m", LAYOUT, 5)
    with monkeypatch.context() as patched:
        patched.setattr(Segment, "reserve", full)
        with pytest.raises(CommonMemoryError, match="no room"):
            attach("a")
    assert attach("a").port.epoch == 5


def test_who_is_killed_while_it_makes_a_mailbox_leaves_none(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[list[Found]] = []
    monkeypatch.setattr(Segment, "reserve", lambda segment, place: found.append(server_module._mailboxes(root)))
    MailboxServer("n", root=root).connect("m", LAYOUT, "a", 1).disconnect()
    # What is there until it is connected has no register: the next who comes, or cleans, removes it.
    assert found == [[], []]


@pytest.mark.parametrize("refused", ["ftruncate", "posix_fallocate", "mkfifo", "open"])
def test_what_the_system_refuses_is_a_problem_of_common_memory(
    refused: str, root: Path, attach: Callable[..., Attachment], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(27, "File too large")

    with monkeypatch.context() as patched:
        patched.setattr(os, refused, refuse)
        with pytest.raises(CommonMemoryError, match="File too large"):
            attach("a")
    assert mailboxes(root) == []
    assert not root.exists()
    assert attach("a").port.place == 0


@pytest.mark.parametrize("go", [Attachment.disconnect, Attachment.abandon])
def test_who_cannot_go_in_good_order_is_gone_nevertheless(
    go: Callable[[Attachment], None], attach: Callable[..., Attachment], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise OSError(24, "Too many open files")

    a, b = attach("a"), attach("b")
    assert a.failures() == []
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        with pytest.raises(CommonMemoryError, match="Too many open files"):
            go(b)
    assert a.failures() == ["b"]


# --- who has died -------------------------------------------------------------------------------------------------------


def test_who_goes_in_good_order_has_not_died(root: Path, attach: Callable[..., Attachment]) -> None:
    a, b = attach("a"), attach("b")
    assert a.failures() == b.failures() == []
    b.disconnect()
    assert a.failures() == []
    a.disconnect()
    assert not root.exists()


def test_who_is_killed_is_found_out_by_all_and_once(root: Path, attach: Callable[..., Attachment]) -> None:
    a, b = attach("a"), attach("b")
    with another(root, "c") as other:
        assert a.failures() == b.failures() == []
        kill(other)
        assert a.failures() == ["c"]
        assert a.failures() == []
        # b has not looked meanwhile, and a frees the place.
        MailboxServer("n", root=root).disconnect("m", 2, "c")
        assert a.failures() == []
        assert b.failures() == ["c"]
        assert b.failures() == []
    later = attach("d")
    assert later.port.place == 2
    assert later.failures() == []


def test_who_came_and_died_between_two_looks_is_told(root: Path, attach: Callable[..., Attachment]) -> None:
    a, b = attach("a"), attach("b")
    assert a.failures() == b.failures() == []
    attach("c").let_go()
    MailboxServer("n", root=root).disconnect("m", 2, "c")
    assert a.failures() == b.failures() == ["c"]


def test_ringing_does_not_lose_who_has_died(root: Path, attach: Callable[..., Attachment]) -> None:
    a = attach("a")
    attach("b").let_go()
    MailboxServer("n", root=root).disconnect("m", 1, "b")
    a.ring()
    assert a.failures() == ["b"]


def test_many_deaths_are_told_though_a_register_forgets(
    root: Path, attach: Callable[..., Attachment], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_module, "MOST_FAILED", 2)
    a, b = attach("a"), attach("b")
    for number in range(5):
        name = f"c{number}"
        attach(name).abandon()
        assert a.failures() == [name]
        MailboxServer("n", root=root).disconnect("m", 2, name)
    assert a.failures() == []
    assert b.failures() == ["c3", "c4"]


def test_a_process_in_its_own_time_frees_only_who_has_died(root: Path, attach: Callable[..., Attachment]) -> None:
    a, b = attach("a"), attach("b")
    server = MailboxServer("n", root=root)
    server.disconnect("m", 1, "b")
    server.disconnect("m", 0, "b")
    server.disconnect("x", 0, "b")
    assert a.failures() == []
    assert [seat.process for seat in mailboxes(root)[0].register.seats] == ["a", "b"]
    b.abandon()
    assert a.failures() == ["b"]


def test_who_has_died_is_freed_wherever_it_is(root: Path, attach: Callable[..., Attachment]) -> None:
    attach("a")
    b, _ = attach("b"), attach("c")
    server = MailboxServer("n", root=root)
    server.disconnect("m", -1, "b")
    assert [seat.process for seat in mailboxes(root)[0].register.seats] == ["a", "b", "c"]
    b.let_go()
    server.disconnect("m", -1, "x")
    server.disconnect("m", -1, "b")
    assert [seat.process for seat in mailboxes(root)[0].register.seats] == ["a", "c"]
    assert attach("d").port.place == 1


def test_who_is_connected_for_others_is_not_told_of_itself(root: Path, attach: Callable[..., Attachment]) -> None:
    server = MailboxServer("n", root=root)
    first = server.connect("m", LAYOUT, "a", 1)
    for_other = server.connect("m", LAYOUT, "b", 1)
    c = attach("c")
    for_other.abandon()
    assert first.failures() == []
    assert c.failures() == ["b"]
    first.disconnect()


def test_who_was_forked_is_not_connected(root: Path, attach: Callable[..., Attachment]) -> None:
    a = attach("a")
    with another(root, "b") as other:
        assert ask(other, "fork") == "forked"  # in a step, so that it has the module's lock
        assert a.failures() == []
        kill(other)
        assert a.failures() == ["b"]
        assert a.segments[0].operate(lambda copy: 5) == 5
        assert ask(other, "go on") == "the child lives"


# --- bells --------------------------------------------------------------------------------------------------------------


def is_ringing(attached: Attachment) -> bool:
    return bool(select.select([attached.bell], [], [], 0)[0])


def test_everybody_else_hears_a_ring_and_when_it_was(attach: Callable[..., Attachment]) -> None:
    a, b, c = attach("a"), attach("b"), attach("c")
    assert not is_ringing(a)
    assert a.hear() is None
    a.ring()
    assert not is_ringing(a)
    first = b.hear()
    a.ring()
    again = b.hear()
    assert first is not None
    assert again is not None
    assert first <= again
    assert c.hear() == first
    assert not is_ringing(c)


def test_a_bell_that_nobody_hears_keeps_nobody_waiting(attach: Callable[..., Attachment]) -> None:
    a, b, c = attach("a"), attach("b"), attach("c")
    takes = fcntl.fcntl(b.bell, fcntl.F_SETPIPE_SZ, 4096)
    for _ in range(takes // 8 + 2):
        a.ring()
    assert b.hear() is not None
    c.let_go()
    a.ring()
    a.ring()
    assert a.failures() == ["c"]


# --- nothing is left behind ---------------------------------------------------------------------------------------------


def test_the_last_who_goes_removes_everything(root: Path, attach: Callable[..., Attachment]) -> None:
    a, b = attach("a"), attach("b")
    a.abandon()
    assert root.exists()
    b.abandon()
    assert not root.exists()
    b.abandon()
    b.disconnect()


@pytest.mark.parametrize("who", ["the last", "somebody else"])
def test_who_goes_after_a_death_that_nobody_has_heard_of_removes_everything(
    who: str, root: Path, attach: Callable[..., Attachment]
) -> None:
    a, b, c = attach("a"), attach("b"), attach("c")
    a.let_go()
    if who == "the last":
        b.disconnect()
        assert root.exists()
        c.disconnect()
    else:
        b.let_go()
        c.let_go()
        MailboxServer("n", root=root).disconnect("m", 1, "b")
    assert not root.exists()


def test_what_is_stale_is_removed_by_the_next_who_comes(root: Path, attach: Callable[..., Attachment]) -> None:
    one, two = attach("a"), attach("b")
    (found,) = mailboxes(root)
    assert found.alive == ("a", "b")
    assert not found.is_stale
    one.let_go()
    two.let_go()
    (found,) = mailboxes(root)
    assert found.is_stale
    attached = attach("c", epoch=77)
    assert attached.port.place == 0
    assert attached.port.epoch == 77


def test_what_is_stale_or_half_made_is_cleaned(root: Path, attach: Callable[..., Attachment]) -> None:
    attach("x", mailbox="alive")
    attach("a").let_go()
    (root / ("0" * 24)).mkdir()
    (root / "not-ours").mkdir()
    assert [found.register.mailbox for found in clean(root)] == ["m"]
    assert [found.register.mailbox for found in mailboxes(root)] == ["alive"]
    left = {path.name for path in root.iterdir() if path.is_dir()}
    assert left == {Path(mailboxes(root)[0].directory).name, "not-ours"}
    assert clean(root / "nowhere") == []


def test_who_is_killed_while_it_removes_a_mailbox_leaves_none(
    root: Path, attach: Callable[..., Attachment], monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_half(directory: Path) -> None:
        (directory / "module-1").unlink()
        raise KeyboardInterrupt

    server = MailboxServer("n", root=root)
    server.create("m", LAYOUT, 1)
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", remove_half)
        with pytest.raises(KeyboardInterrupt):
            server.remove("m")
    assert server.names() == []
    assert attach("a").segments[0].operate(lambda copy: 5) == 5


def test_modules_crash_by_number_in_one_namespace(root: Path, attach: Callable[..., Attachment]) -> None:
    a, b, other = attach("a"), attach("b", mailbox="k"), attach("a", namespace="o")
    server = MailboxServer("n", root=root)
    server.crash_module(2)
    server.crash_module(3)
    for attached in (a, b):
        assert attached.segments[0].operate(lambda copy: 1) == 1
        assert attached.segments[1].operate(lambda copy: 1) is FAILED
    assert other.segments[1].operate(lambda copy: 1) == 1
    assert {found.crashed for found in mailboxes(root) if found.register.namespace == "n"} == {(2,)}
    server.remove_all()
    assert [found.register.namespace for found in mailboxes(root)] == ["o"]


def test_who_has_ended_all_processes_leaves_nothing_half_made(root: Path, attach: Callable[..., Attachment]) -> None:
    attach("a")
    (root / ("0" * 24)).mkdir()
    MailboxServer("n", root=root).remove_all()
    assert not root.exists()


CONNECTING = """
import json, os, random, signal, sys, time, traceback
from pathlib import Path
from plainchant.live.memory.server import MailboxServer, clean, mailboxes
from plainchant.core.memory import Layout

root, rounds = Path(sys.argv[1]), int(sys.argv[2])
layout = Layout(2, 6, 2, 64)

def come_and_go(number):
    chance = random.Random(number)
    turn = 0
    while True:
        turn += 1
        attached = MailboxServer("n", root=root).connect("m", layout, f"p{number}-{turn}", 1)
        attached.ring()
        for name in attached.failures():
            for seat in (seat for found in mailboxes(root) for seat in found.register.seats if seat.process == name):
                MailboxServer("n", root=root).disconnect("m", seat.place, name)
        attached.abandon() if chance.random() < 0.2 else attached.disconnect()

chance = random.Random(8)
connected = 0
for number in range(rounds):
    children = []
    for each in range(2):
        child = os.fork()
        if child == 0:
            try:
                come_and_go(2 * number + each)
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(1)
        children.append(child)
    for child in children:
        time.sleep(chance.uniform(0.002, 0.012))
        os.kill(child, signal.SIGKILL)
        assert os.WIFSIGNALED(os.waitpid(child, 0)[1]), "a child failed by itself"
    attached = MailboxServer("n", root=root).connect("m", layout, f"parent-{number}", 1)
    assert attached.segments[1].operate(lambda copy: 5) == 5
    attached.failures()
    attached.abandon()
    left = mailboxes(root)
    assert not [found for found in left if found.alive], left
    connected += 1
clean(root)
print(json.dumps({"connected": connected, "left": root.exists()}))
"""


def test_processes_that_are_killed_while_they_come_and_go_do_no_harm(root: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CONNECTING, str(root), "12"], capture_output=True, timeout=60, check=False, cwd=REPOSITORY
    )
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == {"connected": 12, "left": False}


def test_a_server_without_a_place_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(CommonMemoryError, match="no common memory can be made"):
        MailboxServer("n", root=tmp_path / "file" / "mailboxes").create("m", LAYOUT, 1)
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o755)
    with pytest.raises(UsageError, match="not a directory that is yours alone"):
        MailboxServer("n", root=tmp_path / "open").create("m", LAYOUT, 1)


def test_without_memory_for_files_there_are_temporary_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "SHARED", tmp_path)
    assert default_root() == tmp_path / f"plainchant-{os.getuid()}"
    check_root()
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(server_module, "SHARED", tmp_path / "missing")
    monkeypatch.setattr(tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    assert default_root().parent == tmp_path / "temporary"


def test_a_lock_that_is_never_given_back_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "BUSY", 0.02)
    with server_module.locked(root), pytest.raises(Refused, match=r"the lock of .* could not be had"), server_module.locked(root):
        pytest.fail("two have the lock")


def test_processes_with_different_lists_meet_at_the_mailbox_of_a_peer(root: Path) -> None:
    def server(namespace: str, address: str, *peers: str) -> MailboxServer:
        return MailboxServer(namespace, root=root, address=address, peers=(address, *peers))

    first = server("n", "a:1", "b:1").connect("m", LAYOUT, "p1", 1)
    second = server("other list", "c:1", "a:1").connect("m", LAYOUT, "p2", 1)
    third = server("n", "b:1", "a:1").connect("m", LAYOUT, "p3", 1)
    assert [attached.port.place for attached in (first, second, third)] == [0, 1, 2]
    assert len(mailboxes(root)) == 1
    stranger = server("other list", "d:1", "e:1").connect("m", LAYOUT, "p4", 1)  # it lists none of them
    assert stranger.port.place == 0
    assert len(mailboxes(root)) == 2
    other = server("other list", "c:1", "a:1").connect("m2", LAYOUT, "p2", 1)  # another group
    assert other.port.place == 0
    elsewhere = MailboxServer(namespace_of("x", "n2"), root=root, address="f:1", peers=("a:1",)).connect("m", LAYOUT, "p5", 1)
    assert elsewhere.port.place == 0  # a node has memory of its own
    for attached in (first, second, third, stranger, other, elsewhere):
        attached.disconnect()
    assert not root.exists()


def test_the_mailbox_of_a_dead_peer_is_not_used(root: Path) -> None:
    dead = MailboxServer("n", root=root, address="a:1").connect("m", LAYOUT, "p1", 1)
    dead.let_go()
    alone = MailboxServer("other list", root=root, address="c:1", peers=("a:1",)).connect("m", LAYOUT, "p2", 1)
    assert alone.port.place == 0
    alone.disconnect()
