"""What a node is told in a file: the configuration of ``plainchant node``.

The file is TOML. Its keys are declared in :class:`NodeConfig`, :class:`MulticastConfig` and :class:`ObserveConfig`, those under
``[parameters]`` by the protocol. It is read as scenario files are (``scenario.read``), with errors that name the file, the line
and the nearest key; options of the command line count as if they stood in it. One file can serve all members, told apart by
``--me``.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path as FilePath
from typing import Any, Final, TypeVar

from ..core.model import MS, SECOND, Duration, UsageError, declarations, parameter
from ..group import UNREAD
from ..protocols import registry
from ..scenario.load import DEFAULT_GROUP, apply_option, parse_document, read_text
from ..scenario.locate import Path
from ..scenario.read import Reader, dotted, hints, nearest
from .addresses import format_address, parse_address
from .joining import Joining
from .lans import check_lans
from .multicast import DEFAULT_GROUP as MULTICAST_GROUP
from .node import join
from .observe.endpoint import where
from .observe.spans import MESSAGES, Spans
from .transport import Address, MakeTransport, Transport
from .transports import transports

T = TypeVar("T")
_NAME: Final = re.compile(r"[\w.-]+")


@dataclasses.dataclass(frozen=True, slots=True)
class MulticastConfig:
    """The table ``[multicast]``."""

    group: str = parameter(format_address(MULTICAST_GROUP), "address of the IP multicast group, the same for all members")
    interface: str = parameter("", "address of the interface that multicasts use; without it, the one of our own address")
    ttl: int = parameter(1, "how many networks a multicast may cross; 1 is this one", minimum=1, maximum=255)


@dataclasses.dataclass(frozen=True, slots=True)
class ObserveConfig:
    """The table ``[observe]``: what the process tells those who look after it. Needs the extra ``observe``."""

    metrics: str = parameter("", "address or port at which Prometheus finds the node's figures; without it, nowhere")
    otlp: str = parameter("", "address of an OpenTelemetry collector (OTLP over HTTP) that gets spans; without it, nobody does")
    messages: float = parameter(MESSAGES, "share of the messages that are traced, the same at all members", minimum=0, maximum=1)

    @property
    def spans(self) -> Spans | None:
        return Spans(self.messages, self.otlp) if self.otlp else None


@dataclasses.dataclass(frozen=True, slots=True)
class NodeConfig:
    """One member as a process: who it is, who the others are, and what they are in together."""

    me: str = parameter(about="which of the peers this process is")
    peers: dict[str, str] = parameter(about="names and addresses of all who may be in the group, this process included")
    backup: dict[str, str] = parameter(
        about="addresses of the same peers on a second network, where the protocol has two", factory=dict
    )
    protocol: str = parameter(registry.DEFAULT_PROTOCOL, "how the group agrees on an order; `plainchant protocols` lists them")
    group: str = parameter(DEFAULT_GROUP, "name of the group")
    members: tuple[str, ...] = parameter(
        (), "peers that form the group together if it does not exist yet; without it, all of them", example='["a", "b"]'
    )
    transport: str = parameter("udp", "what carries packets: udp, tcp, multicast, or the name of an installed one")
    multicast: MulticastConfig = parameter(MulticastConfig(), "where multicasts go, with the transport multicast")
    packet: int = parameter(
        0, "size of packets; 0: as large as the network takes them whole", unit="bytes", minimum=0, maximum=16 << 20
    )
    trace: str = parameter("", "directory to record everything in that happens, for `plainchant collect`; without it, nothing is")
    run: str = parameter("r0", "name of the run in the trace")
    watch: str = parameter("", "host and port of a page that shows what this process does; without it, there is none")
    observe: ObserveConfig = parameter(ObserveConfig(), "metrics and spans")
    incarnation: int = parameter(
        0, "how often this member was started before, at the least; it is found out if another member remembers", minimum=0
    )
    timeout: Duration = parameter(
        Duration(30 * SECOND), "how long the group may take to let this process in", unit="duration", minimum=1 * MS
    )
    leave_timeout: Duration = parameter(
        Duration(10 * SECOND), "how long the group may take to let this process go", unit="duration", minimum=1 * MS
    )
    key: str = parameter(
        "", "file with the group's key, see `plainchant key`; without it, the one in the environment (PLAINCHANT_KEY_FILE)"
    )
    insecure: bool = parameter(False, "whether the process may be where other machines reach it without a key")
    parameters: Mapping[str, Any] = parameter(about="the protocol's own parameters", factory=dict)
    """Those that were set; the others are fitted to the network."""

    def join(self, *, unread: int = UNREAD) -> Joining:
        """The membership that this describes, with a process of its own: ``async with config.join() as group``."""
        same = ("protocol", "me", "peers", "backup", "parameters", "packet", "run", "incarnation", "insecure")
        given: dict[str, Any] = {name: getattr(self, name) for name in same}
        given |= {name: getattr(self, name) or None for name in ("members", "trace", "watch", "key")}
        given |= {"metrics": self.observe.metrics or None, "spans": self.observe.spans, "transport": self._transport()}
        return join(self.group, timeout=self.timeout / SECOND, leave_timeout=self.leave_timeout / SECOND, unread=unread, **given)

    def _transport(self) -> str | MakeTransport:
        if self.transport == "multicast":
            return self._make_multicast
        return _make_tcp if self.transport == "tcp" and self.packet else self.transport

    def _make_multicast(self, address: Address, packet: int) -> Transport:
        from .multicast import MulticastTransport

        options = self.multicast
        return MulticastTransport(address, parse_address(options.group), options.interface, options.ttl, packet=packet)


def _make_tcp(address: Address, packet: int) -> Transport:
    from .tcp import TcpTransport

    return TcpTransport(address, packet=packet)


def load_config(path: str | FilePath, overrides: Sequence[str] = ()) -> NodeConfig:
    """Reads a configuration file; ``overrides`` are ``key=value`` as after ``--set``, the last one wins."""
    file = FilePath(path)
    text = read_text(file, "configuration", "`plainchant node --example` prints one to begin with")
    return parse_config(text, str(file), overrides)


def parse_config(text: str, filename: str = "configuration", overrides: Sequence[str] = ()) -> NodeConfig:
    """Reads a configuration from its text; ``filename`` is for messages."""
    text = text.replace("\r\n", "\n")
    document = parse_document(text, filename, "configuration")
    options: dict[Path, str] = {}
    for override in overrides:
        apply_option(document, override, options, "--set me=a or --set parameters.resilience=1")
    return _Assembly(Reader(text, filename, options), document).config()


class _Assembly:
    """Reads a document: what the declarations say, and what needs to be looked at together."""

    def __init__(self, reader: Reader, document: dict[str, Any]) -> None:
        self._reader = reader
        self._document = document

    def config(self) -> NodeConfig:
        declared = {field.name: declaration for field, declaration in declarations(NodeConfig)}
        self._reader.table(self._document, (), declared, "in a node's configuration")
        plain = {key: given for key, given in self._document.items() if key not in ("peers", "backup", "parameters")}
        types = hints(NodeConfig)
        values = {key: self._reader.value(types[key], declared[key], given, (key,)) for key, given in plain.items()}
        if "peers" not in self._document:
            self._reader.fail((), 'peers are missing: write [peers] and, below it, a line such as a = "127.0.0.1:7001" for each')
        values |= {key: self._addresses(key) for key in ("peers", "backup") if key in self._document}
        self._check_names(values)
        transport = values.get("transport", "udp")
        if transport not in transports():
            self._reader.fail(("transport",), f'transport cannot be "{transport}"; {nearest(transport, transports())}')
        config = NodeConfig(**values)
        if transport == "multicast":
            self._try(("multicast", "group"), lambda: parse_address(config.multicast.group))
        self._try(("observe", "metrics"), lambda: config.observe.metrics and where(config.observe.metrics))
        self._try(("observe", "otlp"), lambda: config.observe.spans)
        return dataclasses.replace(config, parameters=self._parameters(config))

    def _addresses(self, key: str) -> dict[str, str]:
        given = self._document[key]
        if not isinstance(given, dict) or not given:
            self._reader.fail((key,), f'{key} must be a table of names and addresses, such as a = "127.0.0.1:7001"')
        places: dict[Address, str] = {}
        for name, text in given.items():
            path = (key, name)
            self._check_name(name, path)
            if isinstance(text, dict):
                inside = f"{name}.{next(iter(text), '')}"
                self._reader.fail(path, f'{key} are addresses by name; put a name with dots into quotes: "{inside}" = ...')
            if not isinstance(text, str):
                self._reader.fail(path, f'{dotted(path)} must be an address in quotes, such as "127.0.0.1:7001", not {text!r}')
            address = self._try(path, partial(parse_address, text))
            if address[1] == 0:
                self._reader.fail(path, f"{dotted(path)}: the others have to know the port; choose one instead of 0")
            if address in places:
                self._reader.fail(path, f'"{name}" has the address of "{places[address]}"; give each an address of its own')
            places[address] = name
        return dict(given)

    def _check_names(self, values: dict[str, Any]) -> None:
        peers = values["peers"]
        if "me" not in values:
            self._reader.fail((), f'me is missing: write me = "{next(iter(peers))}" at the top, or say --me {next(iter(peers))}')
        if values["me"] not in peers:
            self._reader.fail(("me",), f'me is "{values["me"]}", which is not among the peers; {nearest(values["me"], peers)}')
        members = values.get("members", ())
        for number, name in enumerate(members):
            if name not in peers:
                self._reader.fail(("members", number), f'member "{name}" is not among the peers; {nearest(name, peers)}')
            if name in members[:number]:
                self._reader.fail(("members", number), f'"{name}" is named twice in members; every process is named once')
        for key in ("group", "run"):
            if key in values:
                self._check_name(values[key], (key,))

    def _check_name(self, name: str, path: Path) -> None:
        if _NAME.fullmatch(name) is None:
            problem = f"{name!r} cannot be a name: use letters, digits, dots, dashes and underscores"
            self._reader.fail(path, f"{problem} (a#1 is the name that a gets when it comes back)")

    def _try(self, path: Path, check: Callable[[], T], *, named: bool = True) -> T:
        """What a check returns; if it fails, that is a problem of the key."""
        try:
            return check()
        except UsageError as error:
            self._reader.fail(path, f"{dotted(path)}: {error}" if named else str(error))

    def _parameters(self, config: NodeConfig) -> dict[str, Any]:
        description = self._try(("protocol",), lambda: registry.describe(config.protocol), named=False)
        path = ("parameters",)
        what = f"among the parameters of {description.name}"
        given = self._reader.fields(description.parameters, self._document.get("parameters", {}), path, what)
        complete = self._try(path, lambda: description.parameters(**given), named=False)
        problem = description.check(complete, {config.group: config.members or tuple(config.peers)})
        if problem is not None:
            self._reader.fail(path, problem)
        peers, backup = [{name: parse_address(text) for name, text in of.items()} for of in (config.peers, config.backup)]
        lans = description.placement.lans(complete)
        self._try(("backup",) if config.backup else path, lambda: check_lans(lans, peers, backup), named=False)
        return given


EXAMPLE: Final = f"""\
# One member of a group, as a process: plainchant node THIS-FILE
# The same file serves all members if each is told who it is: plainchant node THIS-FILE --me b

me = "a"
group = "bank"
protocol = "{registry.DEFAULT_PROTOCOL}"          # `plainchant protocols` lists them

# More that can be set; each line shows what holds without it.
# members = ["a", "b", "c"]     # who forms the group together while it does not exist; who comes later is let in
# transport = "udp"             # or "tcp", where UDP is not let through, or "multicast", one packet for all
# packet = 0                    # bytes of a packet; 0: as large as the network takes them whole
# trace = ""                    # a directory to record everything in, for `plainchant collect` and `plainchant verify`
# run = "r0"                    # the name of the run in that trace
# watch = ""                    # such as "127.0.0.1:8765": a page for the browser that shows what this process does
# incarnation = 0               # how often this member was started before, if nobody else remembers
# timeout = "30s"               # how long the group may take to let this process in
# leave_timeout = "10s"         # and to let it go
# key = ""                      # a file with the group's key, the same at all members: `plainchant key new bank.key`
# insecure = false              # true: other machines may reach this process though it has no key

# Everybody who may be in the group. Each listens at its own address and finds the others at theirs.
[peers]
a = "127.0.0.1:7001"
b = "127.0.0.1:7002"
c = "127.0.0.1:7003"

# What the protocol lets you set: `plainchant protocols sequencer`. What is left out is fitted to the network.
[parameters]
resilience = 1                  # a message is delivered when a member besides the sequencer holds it

# What the process tells those who look after it (docs/observe.md):
# [observe]
# metrics = ""                  # "127.0.0.1:9464": figures for Prometheus are at http://127.0.0.1:9464/metrics
# otlp = ""                     # "http://127.0.0.1:4318": a collector that gets OpenTelemetry's spans
# messages = 0.0001             # the share of messages that are traced

# With transport = "multicast":
# [multicast]
# group = "239.193.7.1:7000"
# interface = ""                # the address of an interface; without it, that of our own address
# ttl = 1                       # networks that a multicast may cross

# With a protocol that has two networks (dedos, with lans = 2), where everybody is on the second:
# [backup]
# a = "127.0.0.1:7011"
# b = "127.0.0.1:7012"
# c = "127.0.0.1:7013"
"""
