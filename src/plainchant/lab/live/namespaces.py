"""A network of this machine's own for each process, so that a partition is one of the kernel's.

Each place gets a network namespace with one interface, the end of a virtual cable; the other ends are in a further namespace,
the *switch*, where bridges join them. A partition moves ports to other bridges: packets between parts go nowhere, whatever the
processes do.

A namespace lasts as long as a process is in it. Here that is a *keeper*, a process that reads its standard input until we close
it. So nothing is left behind however we end, nothing needs a name, and the machine's own network is not touched. Workers are
started in the namespace of their place, one incarnation after the other, at the same address.

This takes ``unshare`` and ``nsenter`` (util-linux), ``ip`` (iproute2), and the right to make namespaces: root has it, and where
the system allows user namespaces every user has it, as root of one.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Final, Self

from ...core.model import PlainchantError
from ...live.transport import Address

PORT: Final = 7000
_SECONDS: Final = 10.0  # how long setting something up may take
_TOOLS: Final = ("unshare", "nsenter", "ip", "cat")
_MTU: Final = 65_535
_MOST: Final = 1000  # a bridge has 1023 ports


class NamespaceError(PlainchantError):
    """There are no namespaces to be had, or the kernel refused something in them."""


class Namespaces:
    """Namespaces for some places, joined by a switch. A context manager."""

    def __init__(self, places: Sequence[str]) -> None:
        if len(places) > _MOST:
            raise NamespaceError(f"{len(places)} processes are more than a bridge has ports ({_MOST}); leave out --namespaces")
        missing = [tool for tool in _TOOLS if shutil.which(tool) is None]
        if sys.platform != "linux" or missing:
            lacking = f"{', '.join(missing)} not found" if missing else "this is not Linux"
            raise NamespaceError(f"there are no network namespaces here ({lacking}); leave out --namespaces")
        self._numbers = {place: number for number, place in enumerate(places, start=1)}
        self._keepers: list[subprocess.Popen[bytes]] = []
        self._of_place: dict[str, subprocess.Popen[bytes]] = {}
        self._own_user = os.geteuid() != 0
        self._bridges = 1

    def __enter__(self) -> Self:
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self.close()

    def address(self, place: str) -> Address:
        """Where a place's process listens."""
        number = self._numbers[place]
        return f"10.77.{number >> 8}.{number & 255}", PORT

    def inside(self, place: str) -> list[str]:
        """What to put before a command to have it run in the namespace of a place; the process stays the same."""
        return self._enter(self._of_place[place])

    def divide(self, parts: Iterable[Iterable[str]]) -> None:
        """Joins places that are in one part, and separates the parts."""
        commands = []
        for number, part in enumerate(parts):
            if number == self._bridges:
                commands += _bridge(number)
                self._bridges += 1
            commands += [f"link set port{self._numbers[place]} master part{number}" for place in part]
        self._ip(self._keepers[0], commands)

    def close(self) -> None:
        """Ends the keepers, and with them everything that was made."""
        for keeper in self._keepers:
            keeper.kill()
        for keeper in self._keepers:
            for pipe in (keeper.stdin, keeper.stdout):
                if pipe is not None:
                    pipe.close()
            keeper.wait()
        self._keepers.clear()

    def _set_up(self) -> None:
        own = ["--user", "--map-root-user"] if self._own_user else []
        switch = self._keep(["unshare", *own, "--net"])
        commands = _bridge(0)
        for place, number in self._numbers.items():
            keeper = self._of_place[place] = self._keep([*self._enter(switch, net=False), "unshare", "--net"])
            commands += [
                f"link add port{number} mtu {_MTU} type veth peer name eth0 mtu {_MTU} netns {keeper.pid}",
                f"link set port{number} master part0 up",
            ]
        self._ip(switch, commands)
        for place, keeper in self._of_place.items():
            host, _ = self.address(place)
            self._ip(keeper, ["link set lo up", f"address add {host}/16 dev eth0", "link set eth0 up"])

    def _keep(self, command: Sequence[str]) -> subprocess.Popen[bytes]:
        """Starts a process in a namespace of its own, and returns when it is there."""
        keeper = subprocess.Popen(
            [*command, "cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        self._keepers.append(keeper)
        assert keeper.stdin is not None
        assert keeper.stdout is not None
        assert keeper.stderr is not None
        with keeper.stderr:
            try:
                keeper.stdin.write(b"\n")
                keeper.stdin.flush()
                there = keeper.stdout.readline()  # `cat` answers, so it runs; or it ends
            except BrokenPipeError:
                there = b""
            if not there:
                text = f"this system lets us make no network namespaces ({keeper.stderr.read().decode().strip()})"
                raise NamespaceError(f"{text}; be root, or leave out --namespaces")
        return keeper

    def _enter(self, keeper: subprocess.Popen[bytes], *, net: bool = True) -> list[str]:
        parts = ["nsenter", "--target", str(keeper.pid)]
        if self._own_user:
            parts += ["--user", "--preserve-credentials"]
        elif not net:
            return []
        return [*parts, *(["--net"] if net else [])]

    def _ip(self, keeper: subprocess.Popen[bytes], commands: Sequence[str]) -> None:
        text = "\n".join(commands) + "\n"
        try:
            done = subprocess.run(
                [*self._enter(keeper), "ip", "-batch", "-"], input=text, capture_output=True, text=True, timeout=_SECONDS
            )
        except subprocess.TimeoutExpired as error:
            raise NamespaceError(f"setting up the network took more than {_SECONDS:g} s; leave out --namespaces") from error
        if done.returncode:
            raise NamespaceError(
                f"the kernel refuses to set up the network ({done.stderr.strip()}); be root, or leave out --namespaces"
            )


def _bridge(number: int) -> list[str]:
    return [f"link add part{number} type bridge", f"link set part{number} up"]
