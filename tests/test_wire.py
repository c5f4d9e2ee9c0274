"""The codec: every packet comes back as it was, and nothing but packets of ours comes back at all."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from plainchant.core.model import Batch, GroupId, Packet, ProcessId, ProtocolError, WireError
from plainchant.core.wire import HEADER_BYTES, VERSION, Codec
from plainchant.protocols import registry
from tests.fuzz.packets import packets_of


class Data(Packet, frozen=True, array_like=True, gc=False, tag=1):
    group: GroupId
    number: int
    batch: Batch


class State(Packet, frozen=True, array_like=True, gc=False, tag=2):
    """A packet with a field of every shape that protocols use."""

    group: GroupId
    members: tuple[ProcessId, ...]
    held: tuple[tuple[int, ProcessId, Batch], ...]
    pair: tuple[int, bytes]
    seen: dict[ProcessId, int]
    choice: Data | None
    late: float
    sure: bool = False
    note: str | None = None


class Nothing(Packet, frozen=True, array_like=True, gc=False, tag=3):
    """A packet without fields."""


OURS: tuple[type[Packet], ...] = (Data, State, Nothing)
CODEC = Codec(OURS)


def registered() -> list[type[Packet]]:
    """The packets of all protocols, followed by the examples above."""
    return [*(packet for description in registry.protocols().values() for packet in description.packets), *OURS]


# --- packets from their declarations --------------------------------------------------------------------------------


def a_packet_of_ours() -> st.SearchStrategy[Packet]:
    return st.one_of(*map(packets_of, OURS))


def sealed(body: bytes) -> bytes:
    """Any body behind a header that fits it: what only a defective or foreign sender makes."""
    return struct.pack(">BI", VERSION, zlib.crc32(body)) + body


def is_refused_or_a_packet(data: bytes) -> None:
    try:
        packet = CODEC.decode(data)
    except WireError:
        return
    assert type(packet) in OURS
    # Converting checks the type of every field again; comparing would stumble over NaN.
    msgspec.convert(msgspec.to_builtins(packet, builtin_types=(bytes,)), type(packet))


# --- round trips ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("packet", registered(), ids=lambda packet: f"{packet.__module__}.{packet.__name__}")
@settings(max_examples=50)
@given(data=st.data())
def test_every_packet_comes_back_as_it_was(packet: type[Packet], data: st.DataObject) -> None:
    codec = Codec((packet,))
    sent = data.draw(packets_of(packet))
    assert codec.decode(codec.encode(sent)) == sent


def test_the_packets_of_each_protocol_fit_into_one_codec() -> None:
    for description in registry.protocols().values():
        Codec(description.packets)


@given(a_packet_of_ours())
def test_packets_of_one_codec_are_told_apart(sent: Packet) -> None:
    received = CODEC.decode(CODEC.encode(sent))
    assert type(received) is type(sent)
    assert received == sent


def test_the_layout_is_a_version_a_checksum_and_a_tagged_array() -> None:
    body = msgspec.msgpack.encode([1, "g", 7, [1, 1, b"x", 0, 0]])
    assert CODEC.encode(Data("g", 7, Batch(1, 1, b"x"))) == sealed(body)


def test_any_kind_of_buffer_can_be_decoded() -> None:
    data = CODEC.encode(Nothing())
    assert CODEC.decode(bytearray(data)) == CODEC.decode(memoryview(data)) == Nothing()


# --- what is not a packet -------------------------------------------------------------------------------------------


@given(st.binary(max_size=200))
def test_arbitrary_bytes_are_refused(data: bytes) -> None:
    is_refused_or_a_packet(data)


@given(st.binary(max_size=200))
def test_arbitrary_bytes_behind_a_good_header_are_refused_or_a_packet(body: bytes) -> None:
    is_refused_or_a_packet(sealed(body))


JSON_LIKE: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 2**64 - 1) | st.floats() | st.text(max_size=4) | st.binary(max_size=4),
    lambda inner: st.lists(inner, max_size=10) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=20,
)


@settings(max_examples=50)
@given(st.lists(JSON_LIKE, max_size=11), st.integers(-1, 5))
def test_well_formed_values_of_other_types_are_refused_or_a_packet(fields: list[Any], tag: int) -> None:
    is_refused_or_a_packet(sealed(msgspec.msgpack.encode([tag, *fields])))


@given(a_packet_of_ours(), st.data())
def test_a_damaged_packet_is_refused(packet: Packet, data: st.DataObject) -> None:
    sent = bytearray(CODEC.encode(packet))
    where = data.draw(st.integers(0, len(sent) - 1))
    sent[where] ^= data.draw(st.integers(1, 255))
    with pytest.raises(WireError):
        CODEC.decode(bytes(sent))


@given(a_packet_of_ours(), st.data())
def test_damage_before_the_checksum_was_made_is_refused_or_a_packet(packet: Packet, data: st.DataObject) -> None:
    body = bytearray(CODEC.encode(packet)[HEADER_BYTES:])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    is_refused_or_a_packet(sealed(bytes(body)))


@given(a_packet_of_ours(), st.data())
def test_a_packet_that_was_cut_off_or_grew_is_refused(packet: Packet, data: st.DataObject) -> None:
    sent = CODEC.encode(packet)
    cut_off = sent[: data.draw(st.integers(0, len(sent) - 1))]
    grown = sent + data.draw(st.binary(min_size=1, max_size=9))
    for wrong in (cut_off, grown):
        with pytest.raises(WireError):
            CODEC.decode(wrong)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        pytest.param(b"", "0 bytes are too short", id="empty"),
        pytest.param(sealed(b""), "5 bytes are too short", id="header-only"),
        pytest.param(b"\x82" + CODEC.encode(Nothing())[1:], "the first byte is 0x82 and not 0xc1", id="version"),
        pytest.param(CODEC.encode(Nothing())[:-1] + b"\x09", "the checksum does not fit", id="checksum"),
        pytest.param(sealed(msgspec.msgpack.encode([9])), "no packet of this protocol .*9", id="unknown-tag"),
        pytest.param(sealed(msgspec.msgpack.encode([])), "no packet of this protocol", id="no-tag"),
        pytest.param(sealed(msgspec.msgpack.encode([1, "g", "7", []])), "Expected `int`, got `str`", id="field-type"),
        pytest.param(sealed(msgspec.msgpack.encode([1, "g"])), "no packet of this protocol", id="field-missing"),
        pytest.param(sealed(b"\x92\x01\xa1\xff"), "no packet of this protocol", id="bad-utf-8"),
        pytest.param(sealed(b"\x93\x02\xa1g\xdd\xff\xff\xff\xff"), "no packet of this protocol", id="huge-array"),
        pytest.param(sealed(b"\x92\x01\xdb\xff\xff\xff\xff"), "no packet of this protocol", id="huge-string"),
        pytest.param(sealed(b"\x92\x03" + b"\x91" * 99_999), "no packet of this protocol", id="tower-of-arrays"),
        pytest.param(sealed(b"\x92\x03" + b"\x81\x01" * 99_999), "no packet of this protocol", id="tower-of-maps"),
    ],
)
def test_a_refusal_says_what_is_wrong(data: bytes, sentence: str) -> None:
    with pytest.raises(WireError, match=sentence):
        CODEC.decode(data)


def test_what_is_longer_than_the_limit_is_refused_on_both_sides() -> None:
    small = Codec(OURS, max_bytes=60)
    packet = Data("g", 1, Batch(1, 1, bytes(100)))
    with pytest.raises(WireError, match=r"too long for a packet of at most 60"):
        small.decode(CODEC.encode(packet))
    with pytest.raises(ProtocolError, match=r"Data takes \d+ bytes of at most 60; put less into it"):
        small.encode(packet)


# --- our own mistakes -----------------------------------------------------------------------------------------------


def test_packet_types_with_the_same_tag_are_refused() -> None:
    class Other(Packet, frozen=True, array_like=True, gc=False, tag=1):
        pass

    with pytest.raises(ProtocolError, match="Data and Other both have tag 1"):
        Codec((Data, Nothing, Other))


def test_a_packet_type_without_an_integer_tag_is_refused() -> None:
    class Untagged(Packet, frozen=True, array_like=True, gc=False):
        pass

    class Named(Packet, frozen=True, array_like=True, gc=False, tag="named"):
        pass

    for packet in (Untagged, Named):
        with pytest.raises(ProtocolError, match=f"{packet.__name__} has no integer tag"):
            Codec((Data, packet))


def test_a_packet_type_that_is_not_an_array_is_refused() -> None:
    class Loose(Packet, frozen=True, array_like=False, gc=False, tag=1):
        pass

    with pytest.raises(ProtocolError, match="Loose is not array_like"):
        Codec((Loose,))


def test_a_codec_for_nothing_is_refused() -> None:
    with pytest.raises(ProtocolError, match="at least one packet type"):
        Codec(())


def test_a_field_type_that_cannot_travel_is_refused() -> None:
    class Odd(Packet, frozen=True, array_like=True, gc=False, tag=1):
        either: bytes | str | Batch | tuple[int, ...]

    with pytest.raises(ProtocolError, match="a field of Odd has a type that cannot travel"):
        Codec((Odd,))


def test_a_foreign_packet_is_not_encoded() -> None:
    with pytest.raises(ProtocolError, match="State is not a packet of this protocol"):
        Codec((Data,)).encode(State("g", (), (), (0, b""), {}, None, 0.0))


@pytest.mark.parametrize("group", ["\ud800", object()], ids=["lone-surrogate", "not-a-string"])
def test_a_value_that_cannot_travel_is_not_encoded(group: Any) -> None:
    with pytest.raises(ProtocolError, match="Data cannot be encoded"):
        CODEC.encode(Data(group, 1, Batch(1, 1, b"")))


def test_a_number_beyond_64_bits_is_not_encoded() -> None:
    with pytest.raises(ProtocolError, match="Data cannot be encoded"):
        CODEC.encode(Data("g", 2**64, Batch(1, 1, b"")))
