"""Group keys: made, kept in files that only their owner reads, found in the environment, rotated.

A *key* is 32 random bytes and the cipher that they are for. A *keyring* has up to :data:`MOST_KEYS` of them: the first one
seals, all of them open. So a group's key is changed in three steps, each everywhere before the next: the new key is *added*,
then *used*, then the old one is *dropped*, and no member ever gets a packet that it cannot open.

A keyring is text, one key per line, ``cipher:base64``; a ``#`` begins a comment. A key is told to people by its *id*, four bytes
derived from it that stand in every packet and do not reveal it. A key file has mode 0600; one that others may read is refused:
its readers are members of the group. Files are replaced as a whole, so that a node sees the old keys or the new ones.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import dataclasses
import os
import secrets
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, Protocol, Self

from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ..core.model import UsageError

KEY_BYTES: Final = 32
ID_BYTES: Final = 4
MOST_KEYS: Final = 8  # keys in a ring: one in use, its successor, and time to tidy up
LARGEST_FILE: Final = 64 << 10  # bytes of a file that may be a keyring
ENVIRONMENT: Final = "PLAINCHANT_KEY"  # the environment variable with a keyring; with ``_FILE`` behind it, with a file's name
ENVIRONMENT_FILE: Final = "PLAINCHANT_KEY_FILE"
DEFAULT_CIPHER: Final = "aes-256-gcm"

_HEADING: Final = "# A keyring of plainchant: whoever can read it is in the group. The first key seals, all of them open.\n"


class Cipher(Protocol):
    """Seals and opens with one key; a number must not be used twice for sealing."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...
    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...


CIPHERS: Final[Mapping[str, Callable[[bytes], Cipher]]] = {"aes-256-gcm": AESGCM, "chacha20-poly1305": ChaCha20Poly1305}


@dataclasses.dataclass(frozen=True, slots=True, repr=False)
class Key:
    """One key, and what it is for. It never shows its secret by accident: ``str`` and ``repr`` have the id."""

    secret: bytes
    cipher: str = DEFAULT_CIPHER
    id: bytes = dataclasses.field(init=False, compare=False)  # the four bytes by which packets name it

    def __post_init__(self) -> None:
        if len(self.secret) != KEY_BYTES:
            raise UsageError(f"a key has {KEY_BYTES} bytes, and this has {len(self.secret)}; make one with `plainchant key new`")
        if self.cipher not in CIPHERS:
            raise UsageError(f"there is no cipher {self.cipher!r}; there are {', '.join(CIPHERS)}")
        object.__setattr__(self, "id", self.derive(b"", b"key id")[:ID_BYTES])

    @classmethod
    def new(cls, cipher: str = DEFAULT_CIPHER) -> Self:
        """A key that nobody has."""
        return cls(secrets.token_bytes(KEY_BYTES), cipher)

    @property
    def text(self) -> str:
        """The key as it stands in a file. It is the secret."""
        return f"{self.cipher}:{base64.b64encode(self.secret).decode()}"

    def derive(self, salt: bytes, purpose: bytes) -> bytes:
        """Another secret, made of this one for one purpose."""
        info = b"plainchant/1 " + self.cipher.encode() + b"\0" + purpose
        return HKDF(SHA256(), KEY_BYTES, salt, info).derive(self.secret)

    def sealer(self, salt: bytes, purpose: bytes) -> Cipher:
        """The cipher with a key of its own for one purpose."""
        return CIPHERS[self.cipher](self.derive(salt, purpose))

    def __str__(self) -> str:
        return self.id.hex()

    def __repr__(self) -> str:
        return f"<key {self.id.hex()} {self.cipher}>"


@dataclasses.dataclass(frozen=True, slots=True)
class Keyring:
    """Keys, the one that seals first.

    >>> ring = Keyring.new()
    >>> later = ring.add(Key.new())
    >>> later.sealing == ring.sealing, len(later.keys)
    (True, 2)
    """

    keys: tuple[Key, ...]

    def __post_init__(self) -> None:
        if not 0 < len(self.keys) <= MOST_KEYS:
            raise UsageError(f"a keyring has 1 to {MOST_KEYS} keys, and this one {len(self.keys)}; drop those that nobody uses")
        ids = [key.id for key in self.keys]
        twice = next((id for id in ids if ids.count(id) > 1), None)
        if twice is not None:
            raise UsageError(f"key {twice.hex()} is in the keyring twice; take it out once")

    @classmethod
    def new(cls, cipher: str = DEFAULT_CIPHER) -> Self:
        """A ring with one new key."""
        return cls((Key.new(cipher),))

    @classmethod
    def parse(cls, text: str, where: str = "the keyring") -> Self:
        """Reads a keyring from its text."""
        keys = []
        for number, line in enumerate(text.splitlines(), start=1):
            for word in line.partition("#")[0].replace(",", " ").split():
                keys.append(_key(word, f"{where}, line {number}"))
        if not keys:
            raise UsageError(f"there is no key in {where}; make one with `plainchant key new FILE`")
        try:
            return cls(tuple(keys))
        except UsageError as problem:
            raise UsageError(f"{where}: {problem}") from None

    @classmethod
    def read(cls, path: str | Path) -> Self:
        """Reads a key file, which only its owner may read."""
        try:
            with open(path, "rb") as file:
                status = os.fstat(file.fileno())
                if os.name == "posix" and status.st_mode & 0o077:
                    mode = stat.S_IMODE(status.st_mode)
                    text = f"others than its owner have rights on the key file {path} (mode {mode:04o})"
                    raise UsageError(f"{text}; say `chmod 600 {path}`, and change the key if somebody may have read it")
                data = file.read(LARGEST_FILE + 1)
        except OSError as error:
            raise UsageError(
                f"the key file {path} cannot be read: {error.strerror or error}; make one with `plainchant key new {path}`"
            ) from error
        if len(data) > LARGEST_FILE:
            raise UsageError(f"{path} is too long for a key file; name the file that `plainchant key new` made")
        try:
            return cls.parse(data.decode("ascii"), str(path))
        except UnicodeDecodeError:
            raise UsageError(f"{path} is no key file; name the file that `plainchant key new` made") from None

    def write(self, path: str | Path, *, replace: bool) -> None:
        """Writes a key file, whole or not at all, for its owner alone."""
        target = Path(path)
        text = _HEADING + "".join(f"{key.text}  # {key}\n" for key in self.keys)
        try:
            descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)  # makes it with mode 0600
            try:
                with open(descriptor, "w", encoding="ascii") as file:
                    file.write(text)
                    file.flush()
                    os.fsync(file.fileno())
                if replace:
                    os.replace(name, target)
                else:
                    os.link(name, target)
                    os.unlink(name)
            except BaseException:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(name)
                raise
        except FileExistsError:
            raise UsageError(f"{path} exists, and a key that is written over is lost; choose another name") from None
        except OSError as error:
            raise UsageError(f"the key file {path} cannot be written: {error.strerror or error}; choose another place") from error

    @property
    def sealing(self) -> Key:
        """The key that packets are sealed with."""
        return self.keys[0]

    def find(self, id: str) -> Key:
        """The key with an id, or with one that begins so."""
        found = [key for key in self.keys if str(key).startswith(id.lower())] if id else []
        if len(found) == 1:
            return found[0]
        there = ", ".join(str(key) for key in self.keys)
        raise UsageError(f"{'several keys begin' if found else 'no key begins'} with {id!r}; there are {there}")

    def add(self, key: Key) -> Self:
        """With another key that opens, and does not seal yet."""
        return type(self)((*self.keys, key))

    def use(self, id: str) -> Self:
        """With that key in front: it seals."""
        first = self.find(id)
        return type(self)((first, *(key for key in self.keys if key != first)))

    def drop(self, id: str) -> Self:
        """Without that key: what is sealed with it is not opened any more."""
        gone = self.find(id)
        if gone == self.sealing:
            raise UsageError(f"key {gone} is the one that seals; `use` another one first, everywhere, and then drop it")
        return type(self)(tuple(key for key in self.keys if key != gone))


def _key(word: str, where: str) -> Key:
    cipher, colon, secret = word.partition(":")
    try:
        if not colon:
            raise UsageError("a key is a cipher, a colon and base64, such as aes-256-gcm:...")
        return Key(base64.b64decode(secret, validate=True), cipher)
    except (UsageError, binascii.Error) as problem:
        raise UsageError(f"{where} has no key that could be used: {problem}") from None


class KeySource:
    """Where a node has its keys from, and whether they have changed there."""

    def __init__(self, ring: Keyring, path: Path | None = None, seen: tuple[int, ...] = ()) -> None:
        self.ring, self.path, self._seen = ring, path, seen

    @classmethod
    def find(cls, given: Keyring | str | Path | None) -> Self | None:
        """The keys that a program gave, or a file, or the environment; None if there are none."""
        if isinstance(given, Keyring):
            return cls(given)
        if given is None:
            text, given = os.environ.get(ENVIRONMENT), os.environ.get(ENVIRONMENT_FILE)
            if text and given:
                raise UsageError(f"both {ENVIRONMENT} and {ENVIRONMENT_FILE} are set; keep one of them")
            if text:
                return cls(Keyring.parse(text, f"the environment variable {ENVIRONMENT}"))
            if not given:
                return None
        seen = _seen(Path(given))
        return cls(Keyring.read(given), Path(given), seen)

    def reload(self, *, always: bool = False) -> Keyring | None:
        """The keys, if the file is not what it was when it was last looked at; raises ``UsageError`` if they cannot be read."""
        if self.path is None:
            return None
        seen = _seen(self.path)
        if seen == self._seen and not always:
            return None
        self._seen = seen
        ring = Keyring.read(self.path)
        if ring == self.ring:
            return None
        self.ring = ring
        return ring


def _seen(path: Path) -> tuple[int, ...]:
    try:
        status = path.stat()
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ino, status.st_size, status.st_mode
