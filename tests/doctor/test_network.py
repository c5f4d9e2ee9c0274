"""The network: addresses, multicast, buffers, packets."""

from __future__ import annotations

from typing import Any

import pytest

from plainchant.doctor import network
from plainchant.doctor.finding import Subject
from plainchant.doctor.machine import Interface
from plainchant.live.config import parse_config
from plainchant.live.transport import Address

from .pretend import amiss, look, pretend

PEERS = '[peers]\na = "127.0.0.1:7001"\nb = "127.0.0.1:7002"\nc = "10.0.0.3:7003"\n'


def subject(text: str = PEERS, me: str = "", *options: str) -> Subject:
    return Subject(parse_config(f'me = "{me or "a"}"\n' + text, overrides=options), me)


def taken(*ports: int) -> Any:
    return lambda address, kind: "Address already in use" if address[1] in ports else ""


def test_all_is_well() -> None:
    checks = (network.loopback, network.peers, network.metrics_port, network.multicast, network.buffers, network.packets)
    for check in checks:
        for about in (Subject(), subject(), subject(PEERS, "b", "observe.metrics=9464", "transport=tcp")):
            assert {finding.level for finding in look(check, pretend(), about)} <= {"ok"}


def test_no_loopback() -> None:
    found = amiss(network.loopback, pretend(bind="Cannot assign requested address"))
    assert found.level == "problem"
    assert "ip link set lo up" in found.change
    found = amiss(network.loopback, pretend(echo="Network is unreachable"))
    assert (found.level, found.text) == ("problem", "a packet to ourselves does not arrive: Network is unreachable")


def test_a_peer_that_nobody_knows() -> None:
    def resolve(host: str) -> tuple[str, str]:
        return ("", "Name or service not known") if host == "nowhere" else (host, "")

    found = amiss(network.peers, pretend(resolve=resolve), subject(PEERS + 'd = "nowhere:7004"\n'))
    assert (found.level, found.text) == ("problem", "peers.d at nowhere:7004 cannot be found: Name or service not known")
    assert "/etc/hosts" in found.change


def test_an_address_that_is_taken_matters_for_who_is_to_run_here() -> None:
    machine = pretend(bind=taken(7001))
    assert [finding.level for finding in look(network.peers, machine, subject())] == ["ok", "ok", "ok"]
    assert "that is so while this member runs" in look(network.peers, machine, subject(me="b"))[0].text
    found = amiss(network.peers, machine, subject(me="a"))
    assert (found.level, found.text) == ("problem", "a at 127.0.0.1:7001 cannot be bound: Address already in use")
    assert "ss -lnpu 'sport = :7001'" in found.change


def test_who_is_to_run_here_has_to_be_here() -> None:
    found = amiss(network.peers, pretend(), subject(me="c"))
    assert (found.level, found.text) == ("problem", "c at 10.0.0.3:7003 is not on this machine")
    found = amiss(network.peers, pretend(is_here=lambda address: False), subject())
    assert found.text.startswith("none of [peers] is an address of this machine: a at 127.0.0.1:7001")


def test_addresses_of_two_kinds() -> None:
    mixed = PEERS + 'd = "[::1]:7004"\n'
    found = amiss(network.peers, pretend(), subject(mixed))
    assert (found.level, found.change) == ("problem", 'give all peers addresses of one kind, or set transport = "tcp"')
    levels = {finding.level for finding in look(network.peers, pretend(), subject(mixed, "", "transport=tcp"))}
    assert levels == {"ok"}


def test_the_second_network_is_looked_at_too() -> None:
    text = '[peers]\n"n1.a" = "127.0.0.1:7001"\n[backup]\n"n1.a" = "10.9.9.9:7001"\n'
    about = Subject(parse_config('me = "n1.a"\nprotocol = "dedos"\nparameters.lans = 2\n' + text))
    assert amiss(network.peers, pretend(), about).text.startswith("none of [backup] is an address of this machine")


def test_a_port_for_metrics_that_is_taken() -> None:
    about = subject(PEERS, "a", "observe.metrics=9464")
    assert look(network.metrics_port, pretend(bind=taken(9464)), subject()) == []
    found = amiss(network.metrics_port, pretend(bind=taken(9464)), about)
    assert found.text == "metrics cannot be served at 127.0.0.1:9464: Address already in use"
    assert [finding.text for finding in look(network.metrics_port, pretend(), about)] == ["127.0.0.1:9464 is free"]
    found = amiss(network.metrics_port, pretend(), subject(PEERS, "a", "observe.metrics=0.0.0.0:9464"))
    assert (found.level, found.change.partition(" to be")[0]) == ("warning", 'set observe.metrics = "9464"')


def no_multicasts_by(*interfaces: str) -> Any:
    def multicast(interface: str, group: Address) -> str:
        return "a multicast to itself does not arrive" if interface in interfaces else ""

    return multicast


def test_an_interface_without_multicasts() -> None:
    found = amiss(network.multicast, pretend(multicast=no_multicasts_by("10.0.0.1")))
    assert found.level == "warning"
    assert found.text == "no multicasts by eth0 (10.0.0.1): a multicast to itself does not arrive"
    assert "ip link set eth0 multicast on" in found.change
    lo = Interface("lo", "127.0.0.1", 65_536, False, True)
    (only,) = look(network.multicast, pretend(multicast=no_multicasts_by("127.0.0.1"), interfaces=[lo]))
    assert only.level == "ok"  # few need it there
    assert "the interface says that it has none" in only.text


def test_multicasts_that_a_configuration_needs() -> None:
    machine = pretend(multicast=no_multicasts_by("127.0.0.1", "10.0.0.1"))

    def levels(me: str, *options: str) -> list[str]:
        found = look(network.multicast, machine, subject(PEERS, me, "transport=multicast", *options))
        return [finding.level for finding in found]

    assert levels("a") == ["problem", "warning"]
    assert levels("a", "multicast.interface=10.0.0.1") == ["ok", "problem"]
    assert [finding.level for finding in look(network.multicast, machine, subject())] == ["ok", "warning"]


def test_multicasts_go_where_the_configuration_says() -> None:
    asked: list[Address] = []

    def multicast(interface: str, group: Address) -> str:
        asked.append(group)
        return ""

    look(network.multicast, pretend(multicast=multicast), subject(PEERS, "a", "multicast.group=239.1.2.3:9000"))
    assert set(asked) == {("239.1.2.3", 9000)}


@pytest.mark.parametrize(
    ("granted", "allowed", "level", "text"),
    [
        (100_000, "50000", "problem", "bursts are lost"),
        (425_984, "212992", "warning", "windows are smaller"),
        (16 << 20, "212992", "warning", "processes with fewer rights than this one get less"),
    ],
)
def test_buffers_that_are_small(granted: int, allowed: str, level: str, text: str) -> None:
    machine = pretend(granted=(granted, 16 << 20), files={"/proc/sys/net/core/rmem_max": allowed})
    found = amiss(network.buffers, machine)
    assert found.level == level
    assert text in found.text
    assert found.change.startswith("sysctl -w net.core.rmem_max=8388608, and to keep it: echo net.core.rmem_max=8388608 >>")
    send = amiss(network.buffers, pretend(granted=(16 << 20, granted), files={"/proc/sys/net/core/wmem_max": allowed}))
    assert "net.core.wmem_max" in send.change


def test_packets_that_do_not_go_through() -> None:
    found = amiss(network.packets, pretend(echo=lambda size: "Message too long" if size > 60_000 else ""))
    assert found.change == "set packet = 1400 in the configuration"
    assert {finding.level for finding in look(network.packets, pretend(echo="Network is unreachable"))} == {"ok"}
    small = Interface("tun0", "10.1.0.1", 600, True, False)
    found = amiss(network.packets, pretend(interfaces=[small]))
    assert found.change == "ip link set tun0 mtu 1500"
    machine = pretend(packet_for=lambda address: 1372 if address[0] == "10.0.0.3" else 65_507)
    found = amiss(network.packets, machine, subject(PEERS, "a", "packet=9000"))
    assert found.text == "packet = 9000, and on the way to c 1372 bytes go in one piece"
    assert found.change == "set packet = 1372, or leave it out"
    assert "up to 1,372 bytes" in look(network.packets, machine, subject())[-1].text
