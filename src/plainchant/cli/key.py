"""``plainchant key``: makes the key of a group, shows which keys a file has, and changes them without downtime."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument

from ..live.keys import CIPHERS, DEFAULT_CIPHER, Key, Keyring
from .console import guarded, output, plain_table
from .options import option

_File = Annotated[Path, Argument(metavar="FILE", help="The key file.")]
_Id = Annotated[str, Argument(metavar="ID", help="The key's id, or how it begins: `plainchant key show FILE`.")]
_Cipher = Annotated[
    str, option(f"{' or '.join(CIPHERS)}; the second where processors have no instructions for AES.", of="CIPHER")
]


@guarded
def new(file: _File, cipher: _Cipher = DEFAULT_CIPHER) -> None:
    """Make a key file with one new key.

    Only you can read it (mode 0600). Give it to every member, by a way that nobody else reads: whoever has it can be in the
    group, read all messages and pretend to be any member. An existing file is not written over.

    Examples:

      plainchant key new bank.key
      plainchant node bank.toml --me a --key bank.key
    """
    ring = Keyring.new(cipher)
    ring.write(file, replace=False)
    print(f"{file} has the new key {ring.sealing} ({cipher}); copy it to all members, and to nobody else")


@guarded
def show(file: _File) -> None:
    """Show which keys a file has, without the keys themselves.

    The ids are what packets name a key by, and what `node.statistics()` counts (sealed_with_ID). No id tells anything of its key.

    Examples:

      plainchant key show bank.key
    """
    table = plain_table("id", "cipher", "what for")
    ring = Keyring.read(file)
    for key in ring.keys:
        table.add_row(str(key), key.cipher, "seals and opens" if key == ring.sealing else "opens")
    output().print(table)


@guarded
def add(
    file: _File,
    source: Annotated[Path | None, option("Add the keys of this file, instead of a new one.", "--from", of="OTHER")] = None,
    cipher: _Cipher = DEFAULT_CIPHER,
) -> None:
    """Add a key that opens and does not seal yet: a new one, or those of another file.

    The first of three steps to another key. When every member has it (copy the file to all), go on with `use`.

    Examples:

      plainchant key add bank.key
      plainchant key add bank.key --from next.key
    """
    ring = Keyring.read(file)
    added = [key for key in Keyring.read(source).keys if key not in ring.keys] if source is not None else [Key.new(cipher)]
    for key in added:
        ring = ring.add(key)
    ring.write(file, replace=True)
    names = ", ".join(map(str, added)) or "no other key"
    print(f"{file} has {names} now; when all members have it: plainchant key use {file} {added[0] if added else ring.sealing}")


@guarded
def use(file: _File, id: _Id) -> None:
    """Seal with another key of the file from now on.

    The second step: every member must have the key before one of them uses it. When every member uses it
    (`node.statistics()` counts who does), go on with `drop`.

    Examples:

      plainchant key use bank.key 3f2a91c0
    """
    ring = Keyring.read(file)
    before = ring.sealing
    ring = ring.use(id)
    ring.write(file, replace=True)
    print(f"{ring.sealing} seals now; when all members use it: plainchant key drop {file} {before}")


@guarded
def drop(file: _File, id: _Id) -> None:
    """Take a key out of the file: what is sealed with it is not opened any more.

    The last step. Who has only the old key is out of the group from then on: so a member is locked out, by not giving it
    the new one.

    Examples:

      plainchant key drop bank.key 9c01be77
    """
    ring = Keyring.read(file)
    gone = ring.find(id)
    ring = ring.drop(id)
    ring.write(file, replace=True)
    print(f"{file} has {gone} no more; {', '.join(map(str, ring.keys))} {'is' if len(ring.keys) == 1 else 'are'} left")
