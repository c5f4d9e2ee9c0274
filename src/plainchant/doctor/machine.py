"""All that checks may ask of the world. A test gives them another :class:`Machine`, on which everything can be found.

Methods do one thing, really (bind, send, wait, read a file), and tell how it went: a text that says why not, or nothing. They
do not judge; checks do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import fcntl
import functools
import importlib.metadata
import os
import platform
import secrets
import socket
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, ParamSpec, TypeVar

from ..core.model import PlainchantError
from ..live.addresses import family_of, is_here, packet_for
from ..live.multicast import DEFAULT_GROUP
from ..live.transport import Address
from ..live.udp import enlarge

if TYPE_CHECKING:
    from ..lab.session.java import Java
    from ..live.memory.server import Found

ECHO_SECONDS: Final = 1.0
"""How long a datagram to ourselves may take."""
_IFF_UP: Final = 0x1
_IFF_LOOPBACK: Final = 0x8
_IFF_MULTICAST: Final = 0x1000
_SIOCGIFADDR: Final = 0x8915
_NET: Final = Path("/sys/class/net")
P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Interface:
    """A network interface that is up and has an IPv4 address."""

    name: str
    address: str
    mtu: int
    multicast: bool
    loopback: bool


@dataclass(frozen=True, slots=True)
class Lateness:
    """How late waits of a millisecond ended, in seconds, and how far the clock of the day went astray meanwhile."""

    median: float
    most: float
    """Of all but one in a hundred."""
    longest: float
    step: float
    """The largest jump of the time of day against the monotonic clock, between two looks."""


def _or_why(ask: Callable[P, R]) -> Callable[P, R | str]:
    """Returns an error's text instead of raising it."""

    @functools.wraps(ask)
    def answer(*args: P.args, **kwargs: P.kwargs) -> R | str:
        try:
            return ask(*args, **kwargs)
        except OSError as error:
            return error.strerror or str(error)
        except PlainchantError as error:
            return str(error)

    return answer


def _datagrams() -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_DGRAM)


class Machine:
    """This machine, as it is."""

    platform = sys.platform
    environ: Mapping[str, str] = os.environ

    def read(self, path: str | Path) -> str | None:
        """The text of a file; None: it cannot be read."""
        try:
            return Path(path).read_text(errors="replace")
        except OSError:
            return None

    def space(self, directory: Path) -> tuple[int, str]:
        """Bytes that are free where a directory is or would be, and why nothing can be written there, if so."""
        there = directory.absolute()
        while not there.exists() and there != there.parent:
            there = there.parent
        if not there.is_dir():
            return 0, f"{there} is no directory"
        try:
            free = os.statvfs(there)
            with tempfile.TemporaryFile(dir=there):
                return free.f_bavail * free.f_frsize, ""
        except OSError as error:
            return 0, error.strerror or str(error)

    @_or_why
    def rights(self, path: Path) -> tuple[int, int]:
        """Mode and owner of a file; or why that cannot be known."""
        found = path.stat()
        return found.st_mode & 0o7777, found.st_uid

    @_or_why
    def keyring(self, path: Path) -> int:
        """How many keys a key file has; or why it cannot be used."""
        from ..live.keys import Keyring

        return len(Keyring.read(path).keys)

    @property
    def user(self) -> int:
        return os.getuid()

    @property
    def python(self) -> tuple[str, tuple[int, int, int]]:
        """The implementation and its version."""
        return platform.python_implementation(), sys.version_info[:3]

    @property
    def is_developing(self) -> bool:
        """Whether the interpreter checks itself, which is slow."""
        return sys.flags.dev_mode or bool(self.environ.get("PYTHONASYNCIODEBUG")) or hasattr(sys, "gettotalrefcount")

    def event_loop(self) -> str:
        """What an event loop is made of; or an error."""
        with contextlib.closing(asyncio.new_event_loop()) as loop, _datagrams() as probe:
            loop.add_reader(probe.fileno(), lambda: None)
            loop.remove_reader(probe.fileno())
            selector = getattr(loop, "_selector", None)
        return f"{type(loop).__name__.strip('_')}{f' with {type(selector).__name__}' if selector is not None else ''}"

    def version(self, package: str) -> str | None:
        """The version of an installed distribution."""
        try:
            return importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            return None

    def requirements(self) -> list[str]:
        """What plainchant says it needs, as its metadata has it."""
        try:
            return importlib.metadata.requires("plainchant") or []
        except importlib.metadata.PackageNotFoundError:
            return []

    @_or_why
    def java(self) -> Java:
        """The Java that Spark would be started on, or why there is none."""
        from ..lab.session.java import find_java

        with tempfile.TemporaryDirectory() as scratch:
            return find_java(Path(scratch), self.environ)

    @_or_why
    def start_spark(self) -> float | str:
        """Starts Spark and has it count; the seconds that took, or why it did not work."""
        from ..lab.session import session

        began = time.monotonic()
        with session("local[1]", memory="1g", shuffle_partitions=1, quick=True) as spark:
            counted = spark.range(10).count()
        return time.monotonic() - began if counted == 10 else f"it counted {counted} instead of 10"

    @_or_why
    def bind(self, address: Address, kind: str) -> str:
        """Binds an address for a moment: ``udp`` or ``tcp``. Why not, or nothing."""
        with socket.socket(family_of(address), socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as probe:
            if kind == "tcp":
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            if kind == "tcp":
                probe.listen()
        return ""

    def resolve(self, host: str) -> tuple[str, str]:
        """The numeric address of a host, or why it has none."""
        try:
            return str(socket.getaddrinfo(host, 1, type=socket.SOCK_DGRAM)[0][4][0]), ""
        except (OSError, UnicodeError) as error:
            return "", str(error)

    is_here = staticmethod(is_here)
    packet_for = staticmethod(packet_for)

    @_or_why
    def echo(self, size: int) -> str:
        """Sends a datagram of so many bytes to ourselves by loopback. Why it did not come whole, or nothing."""
        with _datagrams() as receiver, _datagrams() as sender, contextlib.suppress(TimeoutError):
            sent = secrets.token_bytes(size)
            receiver.bind(("127.0.0.1", 0))
            receiver.settimeout(ECHO_SECONDS)
            enlarge(receiver, 1 << 20)
            sender.sendto(sent, receiver.getsockname())
            return "" if receiver.recv(1 << 16) == sent else "it came back altered"
        return "it did not come back"

    @_or_why
    def multicast(self, interface: str, group: Address = DEFAULT_GROUP) -> str:
        """Sends a multicast by an interface and waits for it to come back. Why it does not, or nothing."""
        # A list of no destinations: members of a real group there pass over it.
        sign = b"\0" + secrets.token_bytes(16)
        with _datagrams() as receiver, _datagrams() as sender, contextlib.suppress(TimeoutError):
            receiver.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            receiver.bind(group)
            member = socket.inet_aton(group[0]) + socket.inet_aton(interface)
            receiver.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP, member)
            sender.bind((interface, 0))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, socket.inet_aton(interface))
            sender.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_LOOP, 1)
            sender.sendto(sign, group)
            end = time.monotonic() + ECHO_SECONDS
            while (left := end - time.monotonic()) > 0:
                receiver.settimeout(left)
                if receiver.recv(1 << 16) == sign:
                    return ""
        return "a multicast to itself does not arrive"

    def interfaces(self) -> list[Interface]:
        """The network interfaces that are up and have an IPv4 address (on Linux; elsewhere nothing is known)."""
        found = []
        for _, name in socket.if_nameindex() if self.platform == "linux" else ():
            bits, mtu = int(self.read(_NET / name / "flags") or "0", 16), self.read(_NET / name / "mtu")
            if bits & _IFF_UP and mtu is not None and (address := _address_of(name)):
                found.append(Interface(name, address, int(mtu), bool(bits & _IFF_MULTICAST), bool(bits & _IFF_LOOPBACK)))
        return found

    def granted(self, wanted: int) -> tuple[int, int]:
        """What the kernel gives of socket buffers of so many bytes: of a receiver's, of a sender's."""
        with _datagrams() as probe:
            return enlarge(probe, wanted), probe.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    def resolution(self) -> float:
        """Of the monotonic clock, in seconds."""
        return time.get_clock_info("monotonic").resolution

    def lateness(self, looks: int) -> Lateness:
        """Waits a millisecond, so often."""
        late, step = [], 0.0
        ahead = time.time() - time.monotonic()
        for _ in range(looks):
            before = time.monotonic()
            time.sleep(0.001)
            late.append(time.monotonic() - before - 0.001)
            now = time.time() - time.monotonic()
            step, ahead = max(step, abs(now - ahead), key=abs), now
        late.sort()
        return Lateness(late[len(late) // 2], late[-1 - len(late) // 100], late[-1], step)

    def synchronised(self) -> bool | None:
        """Whether the kernel's clock is kept by NTP or its like; None: nobody says."""
        if self.platform != "linux":
            return None
        with contextlib.suppress(OSError, AttributeError):
            buffer = ctypes.create_string_buffer(512)  # struct timex, all zero: only read
            state = ctypes.CDLL(None, use_errno=True).adjtimex(buffer)
            if state >= 0:
                (status,) = struct.unpack_from("@i", buffer, struct.calcsize("@Illll"))
                return state != 5 and not status & 0x40
        return None

    def file_limits(self) -> tuple[int, int]:
        """How many files a process may have open, and up to how many it may raise that."""
        import resource

        return resource.getrlimit(resource.RLIMIT_NOFILE)

    def processors(self) -> int:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    def load(self) -> float:
        return os.getloadavg()[0]

    def ticks(self) -> dict[str, int] | None:
        """What all processors have done since the machine started, in ticks: among it ``steal``, and the ``total``."""
        words = (self.read("/proc/stat") or "").partition("\n")[0].split()
        if not words or words[0] != "cpu" or len(words) < 9:
            return None
        numbers = [int(word) for word in words[1:9]]
        return {"steal": numbers[7], "total": sum(numbers)}

    def shared_memory(self) -> Path:
        from ..live.memory import server

        return server.SHARED

    @_or_why
    def mailboxes(self) -> list[Found]:
        """The mailboxes of this user; or why they cannot be looked at."""
        from ..live.memory.server import default_root, mailboxes

        return mailboxes() if default_root().exists() else []


def _address_of(interface: str) -> str:
    """The IPv4 address of an interface; empty: it has none."""
    with _datagrams() as probe, contextlib.suppress(OSError):
        request: Any = struct.pack("256s", interface.encode()[:15])
        return socket.inet_ntoa(fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, request)[20:24])
    return ""
