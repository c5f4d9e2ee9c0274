"""Addresses: what is read, what is refused and how, and what the system says of packet sizes."""

from __future__ import annotations

import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plainchant.core.model import UsageError
from plainchant.live.addresses import DEFAULT_PACKET, MAX_PACKET, family_of, format_address, packet_for, parse_address, resolve

from .endpoints import run


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:7001", ("127.0.0.1", 7001)),
        ("node-3.example:0", ("node-3.example", 0)),
        ("[::1]:7001", ("::1", 7001)),
        ("[fe80::1%eth0]:65535", ("fe80::1%eth0", 65535)),
        (" localhost:80 ", ("localhost", 80)),
    ],
)
def test_addresses_are_read_and_written(text: str, address: tuple[str, int]) -> None:
    assert parse_address(text) == address
    assert format_address(address) == text.strip()


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("", "write a host and a port"),
        ("localhost", "write a host and a port"),
        (":7001", "write a host and a port"),
        ("[]:7001", "write a host and a port"),
        ("a b:7001", "write a host and a port"),
        ("http://x:1", "brackets"),
        ("::1:7001", "brackets"),
        ("[localhost]:7001", "no IPv6 host"),
        ("localhost:", "no number from 0 to 65535"),
        ("localhost:65536", "no number from 0 to 65535"),
        ("localhost:-1", "no number from 0 to 65535"),
        ("localhost:٣", "no number from 0 to 65535"),
    ],
)
def test_what_is_no_address_is_refused_with_advice(text: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        parse_address(text)


@given(st.one_of(st.ip_addresses().map(str), st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)), st.integers(0, 65535))
def test_written_addresses_are_read_back(host: str, port: int) -> None:
    assert parse_address(format_address((host, port))) == (host, port)


@given(st.text(max_size=30))
def test_any_text_is_an_address_or_a_usage_error(text: str) -> None:
    try:
        host, port = parse_address(text)
    except UsageError:
        return
    assert host
    assert 0 <= port <= 65535


def test_names_and_numbers_are_resolved_to_one_spelling() -> None:
    async def main() -> None:
        assert await resolve(("127.0.0.1", 7001)) == ("127.0.0.1", 7001)
        assert await resolve(("0:0:0:0:0:0:0:1", 7001)) == ("::1", 7001)
        assert await resolve(("localhost", 7001), socket.AF_INET) == ("127.0.0.1", 7001)

    run(main())


@pytest.mark.parametrize("host", ["no-such-host.invalid", "x" * 300, "a..b"])
def test_a_host_without_an_address_is_refused_with_advice(host: str) -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="check its name"):
            await resolve((host, 7001))

    run(main())


def test_a_number_of_another_family_is_refused() -> None:
    async def main() -> None:
        with pytest.raises(UsageError, match="of IPv6"):
            await resolve(("127.0.0.1", 7001), socket.AF_INET6)

    run(main())


def test_families() -> None:
    assert family_of(("127.0.0.1", 1)) == socket.AF_INET
    assert family_of(("fe80::1%eth0", 1)) == socket.AF_INET6


def test_packets_on_loopback_are_as_large_as_its_mtu_allows() -> None:
    size = packet_for(("127.0.0.1", 0))
    assert DEFAULT_PACKET <= size <= MAX_PACKET
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as mouth:
        ear.bind(("127.0.0.1", 0))
        ear.settimeout(10)
        mouth.sendto(bytes(size), ear.getsockname())
        assert len(ear.recv(1 << 17)) == size


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "255.255.255.255"])
def test_without_an_answer_packets_have_a_size_that_fits_everywhere(host: str) -> None:
    assert packet_for((host, 7001)) == DEFAULT_PACKET
