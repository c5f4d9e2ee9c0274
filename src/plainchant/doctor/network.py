"""Checks of the network: loopback, addresses of a configuration, multicast, buffers, sizes of packets."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..live.addresses import DEFAULT_PACKET, MAX_PACKET, family_of, format_address, is_loopback, parse_address
from ..live.multicast import DEFAULT_GROUP
from ..live.observe.endpoint import where
from ..live.transport import Address
from ..live.udp import WANTED_BUFFER
from .finding import Finding, Subject, ok, problem, warning
from .machine import Interface, Machine

LOOPBACK: Final[Address] = ("127.0.0.1", 0)
SMALLEST_BUFFER: Final = 4 * MAX_PACKET
"""Bytes of a receiver's buffer with which hardly anything can be under way."""
SMALL_MTU: Final = 1280
"""Bytes that every interface for IPv6 takes at once; with fewer, packets get small."""
SMALL: Final = 100
"""Bytes of a packet that goes everywhere."""
_UDP_HEADERS: Final = 28
_UP: Final = "bring the loopback interface up (ip link set lo up), or let the container have a network"


def loopback(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Sockets of this machine's own, which everything here needs."""
    for kind in ("udp", "tcp"):
        why = machine.bind(LOOPBACK, kind)
        if why:
            yield problem(f"no {kind} socket can be bound at 127.0.0.1: {why}", _UP)
            return
    why = machine.echo(SMALL)
    if why:
        yield problem(f"a packet to ourselves does not arrive: {why}", _UP)
    else:
        yield ok("udp and tcp sockets can be bound at 127.0.0.1, and packets arrive there")


def peers(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """The addresses of a configuration: known, of one kind, and ours to bind where they are ours."""
    config = subject.config
    if config is None:
        return
    kind = "tcp" if config.transport == "tcp" else "udp"
    for table, addresses in (("peers", config.peers), ("backup", config.backup)):
        known: dict[str, Address] = {}
        for name, text in addresses.items():
            host, port = parse_address(text)
            number, why = machine.resolve(host)
            if why:
                yield problem(
                    f"{table}.{name} at {text} cannot be found: {why}",
                    f"write the number of its host in [{table}], or make {host} known (/etc/hosts, DNS)",
                )
            else:
                known[name] = number, port
        if kind == "udp" and len({family_of(address) for address in known.values()}) > 1:
            kinds = ", ".join(f"{name} is {family_of(address).name[3:]}" for name, address in known.items())
            text = f"a UDP socket reaches addresses of one kind only, and these are of two: {kinds}"
            yield problem(text, 'give all peers addresses of one kind, or set transport = "tcp"')
        yield from _here(machine, subject, known, kind, table)


def _here(machine: Machine, subject: Subject, known: dict[str, Address], kind: str, table: str) -> Iterator[Finding]:
    """Of the addresses that are this machine's: whether they are free."""
    mine = {name: address for name, address in known.items() if machine.is_here(address)}
    if known and not mine:
        yield problem(
            f"none of [{table}] is an address of this machine: {_listed(known)}",
            f"correct the addresses in [{table}], or run the doctor where a member is to run",
        )
    if subject.me and subject.me in known and subject.me not in mine:
        yield problem(
            f"{subject.me} at {format_address(known[subject.me])} is not on this machine",
            "give it an address of this machine, or start it where that address is (`ip -brief address` lists ours)",
        )
    for name, address in mine.items():
        why = machine.bind(address, kind)
        shown = f"{name} at {format_address(address)}"
        if not why:
            yield ok(f"{shown} is here and free")
        elif name == subject.me:
            yield problem(
                f"{shown} cannot be bound: {why}",
                f"end what is there (`ss -lnp{kind[0]} 'sport = :{address[1]}'` names it), or choose another port at all members",
            )
        else:
            yield ok(f"{shown} is here and cannot be bound now ({why}): that is so while this member runs")
    elsewhere = [name for name in known if name not in mine]
    if mine and elsewhere:
        yield ok(f"elsewhere: {_listed({name: known[name] for name in elsewhere})}")


def _listed(addresses: dict[str, Address]) -> str:
    return ", ".join(f"{name} at {format_address(address)}" for name, address in addresses.items())


def metrics_port(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Where a configuration wants its figures to be found."""
    if subject.config is None or not subject.config.observe.metrics:
        return
    address = where(subject.config.observe.metrics)
    why = machine.bind(address, "tcp")
    if why:
        yield problem(
            f"metrics cannot be served at {format_address(address)}: {why}",
            f"end what is there (`ss -lnpt 'sport = :{address[1]}'` names it), or set observe.metrics to another port",
        )
        return
    number, unknown = machine.resolve(address[0])
    if not unknown and not is_loopback((number, address[1])):
        yield warning(
            f"{format_address(address)} is free, and whoever reaches it reads the names of groups and processes there",
            f'set observe.metrics = "{address[1]}" to be read on this machine only, or let a firewall pass Prometheus alone',
        )
    else:
        yield ok(f"{format_address(address)} is free")


def multicast(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """Whether a multicast comes back, by loopback and by each interface."""
    config = subject.config
    needed = config is not None and config.transport == "multicast"
    group = parse_address(config.multicast.group) if config is not None else DEFAULT_GROUP
    interfaces = machine.interfaces() or [Interface("loopback", "127.0.0.1", 65_536, True, True)]
    for interface in interfaces:
        shown = f"{interface.name} ({interface.address})"
        why = machine.multicast(interface.address, group)
        if not why:
            yield ok(f"a multicast to {format_address(group)} by {shown} comes back")
            continue
        flag = "" if interface.multicast else "; the interface says that it has none"
        change = (
            f"ip link set {interface.name} multicast on; let the firewall pass {group[0]}; or use the transport udp"
            if not interface.loopback
            else "name another interface in [multicast], or use the transport udp"
        )
        text = f"no multicasts by {shown}: {why}{flag}"
        chosen = config is not None and config.multicast.interface in ("", interface.address)
        if needed and chosen and _uses(machine, subject, interface):
            yield problem(text, change)
        elif interface.loopback:
            yield ok(f"{text}: only the transport multicast between members on this machine needs them", change)
        else:
            yield warning(text, change)


def _uses(machine: Machine, subject: Subject, interface: Interface) -> bool:
    """Whether a member of the configuration would multicast by an interface."""
    assert subject.config is not None
    if subject.config.multicast.interface:
        return subject.config.multicast.interface == interface.address
    named = [subject.me] if subject.me in subject.config.peers else list(subject.config.peers)
    hosts = {machine.resolve(parse_address(subject.config.peers[name])[0])[0] for name in named}
    return interface.address in hosts or (interface.loopback and any(host.startswith("127.") for host in hosts))


def buffers(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """What the kernel gives of the socket buffers that transports ask for: windows are fitted to it."""
    for which, setting, got in zip(("receive", "send"), ("rmem_max", "wmem_max"), machine.granted(WANTED_BUFFER), strict=True):
        allowed = machine.read(f"/proc/sys/net/core/{setting}")
        limit = int(allowed) if allowed is not None and allowed.strip().isdecimal() else None
        said = f"; net.core.{setting} is {size_of(limit)}" if limit is not None else ""
        text = f"of {size_of(WANTED_BUFFER)} asked for as {which} buffer the kernel keeps {size_of(got)}{said}"
        change = (
            f"sysctl -w net.core.{setting}={WANTED_BUFFER}, and to keep it: "
            f"echo net.core.{setting}={WANTED_BUFFER} >> /etc/sysctl.d/60-plainchant.conf"
        )
        if got < SMALLEST_BUFFER:
            yield problem(f"{text}: bursts are lost", change)
        elif got < WANTED_BUFFER:
            yield warning(f"{text}: windows are smaller, and senders wait more often", change)
        elif limit is not None and limit < WANTED_BUFFER // 2:
            yield warning(f"{text}: processes with fewer rights than this one get less", change)
        else:
            yield ok(text)


def packets(machine: Machine, subject: Subject) -> Iterator[Finding]:
    """The largest packets: by loopback, by each interface, and to the peers of a configuration."""
    why = machine.echo(MAX_PACKET)
    if why and not machine.echo(SMALL):
        yield warning(
            f"a packet of {MAX_PACKET:,} bytes to ourselves is lost: {why}", f"set packet = {DEFAULT_PACKET} in the configuration"
        )
    elif not why:
        yield ok(f"{MAX_PACKET:,} bytes to ourselves arrive whole")
    for interface in machine.interfaces():
        if interface.mtu < SMALL_MTU:
            yield warning(
                f"{interface.name} takes no more than {interface.mtu} bytes at once: many packets for few messages",
                f"ip link set {interface.name} mtu 1500",
            )
        else:
            largest = min(MAX_PACKET, interface.mtu - _UDP_HEADERS)
            yield ok(f"{interface.name} takes {interface.mtu:,} bytes at once: packets by it have up to {largest:,}")
    config = subject.config
    if config is None or config.transport == "tcp":
        return
    sizes = {}
    for name, text in config.peers.items():
        host, port = parse_address(text)
        number, why = machine.resolve(host)
        if not why:
            sizes[name] = machine.packet_for((number, port))
    if config.packet and sizes and config.packet > min(sizes.values()):
        least = min(sizes, key=lambda name: sizes[name])
        yield warning(
            f"packet = {config.packet}, and on the way to {least} {sizes[least]} bytes go in one piece",
            f"set packet = {sizes[least]}, or leave it out",
        )
    elif sizes:
        yield ok(f"packets to the peers have up to {min(sizes.values()):,} bytes")


def size_of(number: int) -> str:
    """Bytes for people.

    >>> size_of(24 << 30), size_of(8 << 20), size_of(212992), size_of(100)
    ('24 GiB', '8 MiB', '208 KiB', '100 bytes')
    """
    for unit, bits in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if number >= 1 << bits:
            return f"{number / (1 << bits):,.3g} {unit}"
    return f"{number} bytes"
