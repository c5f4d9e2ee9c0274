"""Keys: made, written, read, refused, and turned."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from plainchant.core.model import UsageError
from plainchant.live.keys import CIPHERS, LARGEST_FILE, MOST_KEYS, Key, Keyring, KeySource


def test_a_key_file_comes_back_as_it_was_and_only_its_owner_reads_it(tmp_path: Path) -> None:
    ring = Keyring.new().add(Key.new("chacha20-poly1305"))
    before = os.umask(0)
    try:
        ring.write(tmp_path / "k", replace=False)
    finally:
        os.umask(before)
    assert (tmp_path / "k").stat().st_mode & 0o777 == 0o600
    assert Keyring.read(tmp_path / "k") == ring
    ring.use(str(ring.keys[1])).write(tmp_path / "k", replace=True)
    assert Keyring.read(tmp_path / "k").sealing == ring.keys[1]
    assert [path.name for path in tmp_path.iterdir()] == ["k"]


def test_a_key_that_exists_is_not_written_over(tmp_path: Path) -> None:
    ring = Keyring.new()
    ring.write(tmp_path / "k", replace=False)
    with pytest.raises(UsageError, match="exists, and a key that is written over is lost"):
        Keyring.new().write(tmp_path / "k", replace=False)
    assert Keyring.read(tmp_path / "k") == ring
    assert [path.name for path in tmp_path.iterdir()] == ["k"]
    with pytest.raises(UsageError, match="cannot be written: No such file or directory"):
        ring.write(tmp_path / "nowhere" / "k", replace=False)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o644])
def test_a_file_on_which_others_have_rights_is_refused(mode: int, tmp_path: Path) -> None:
    Keyring.new().write(tmp_path / "k", replace=False)
    (tmp_path / "k").chmod(mode)
    with pytest.raises(UsageError, match=rf"\(mode 0{mode:o}\); say `chmod 600"):
        Keyring.read(tmp_path / "k")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "there is no key in the keyring; make one with `plainchant key new FILE`"),
        ("# only a comment", "there is no key in"),
        ("secret", "line 1 has no key that could be used: a key is a cipher, a colon and base64"),
        ("\naes-256-gcm:abc", "line 2 has no key that could be used: Incorrect padding"),
        ("aes-256-gcm:c2hvcnQ=", "a key has 32 bytes, and this has 5"),
        (f"rot13:{'A' * 43}=", "there is no cipher 'rot13'; there are aes-256-gcm, chacha20-poly1305"),
        (f"aes-256-gcm:{'A' * 43}=\naes-256-gcm:{'A' * 43}=", "is in the keyring twice"),
        ("\n".join(Key.new().text for _ in range(MOST_KEYS + 1)), "a keyring has 1 to 8 keys, and this one 9"),
    ],
)
def test_what_is_no_keyring_is_a_sentence(text: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem.replace("(", r"\(")):
        Keyring.parse(text)


def test_what_is_no_key_file_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read: No such file or directory; make one with `plainchant key new"):
        Keyring.read(tmp_path / "nowhere")
    for content, problem in ((b"\xff\xfe", "is no key file"), (b"#" * (LARGEST_FILE + 1), "is too long for a key file")):
        (tmp_path / "k").write_bytes(content)
        (tmp_path / "k").chmod(0o600)
        with pytest.raises(UsageError, match=problem):
            Keyring.read(tmp_path / "k")


def test_a_key_does_not_show_its_secret() -> None:
    key = Key.new()
    ring = Keyring((key,))
    assert str(key) == key.id.hex()
    secret = key.text.partition(":")[2]
    for shown in (str(key), repr(key), str(ring), repr(ring)):
        assert secret not in shown
        assert key.secret.hex() not in shown
        assert repr(key.secret) not in shown


def test_keys_are_added_used_and_dropped() -> None:
    ring = Keyring.new()
    old, new = ring.sealing, Key.new()
    ring = ring.add(new)
    assert (ring.sealing, ring.keys) == (old, (old, new))
    with pytest.raises(UsageError, match="is the one that seals; `use` another one first"):
        ring.drop(str(old))
    ring = ring.use(str(new)[:6])
    assert ring.keys == (new, old)
    assert ring.drop(str(old)).keys == (new,)
    with pytest.raises(UsageError, match=f"no key begins with 'xyz'; there are {new}, {old}"):
        ring.use("xyz")
    with pytest.raises(UsageError, match="no key begins with ''"):
        ring.use("")


@pytest.mark.parametrize("cipher", CIPHERS)
def test_each_salt_and_purpose_has_a_key_of_its_own(cipher: str) -> None:
    key = Key.new(cipher)
    made = {key.derive(salt, purpose) for salt in (b"a", b"b") for purpose in (b"packets of a", b"packets of b")}
    assert len(made) == 4
    other = {"aes-256-gcm": "chacha20-poly1305", "chacha20-poly1305": "aes-256-gcm"}[cipher]
    assert Key(key.secret, other).id != key.id
    assert Key(key.secret, other).derive(b"a", b"packets of a") not in made


def test_a_source_tells_when_its_file_has_changed(tmp_path: Path) -> None:
    ring = Keyring.new()
    ring.write(tmp_path / "k", replace=False)
    source = KeySource.find(tmp_path / "k")
    assert source is not None
    assert source.ring == ring
    assert source.reload() is None
    later = ring.add(Key.new())
    later.write(tmp_path / "k", replace=True)
    assert source.reload() == later == source.ring
    assert source.reload(always=True) is None
    (tmp_path / "k").unlink()
    with pytest.raises(UsageError, match="cannot be read"):
        source.reload()
    assert source.reload() is None  # it was told
    assert source.ring == later
    later.write(tmp_path / "k", replace=False)
    assert source.reload() is None  # the same keys are there again
