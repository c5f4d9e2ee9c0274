"""Entry points: how the library finds what is installed beside it without importing it by name.

The library does not import the laboratory, other people's protocols or other people's transports. Each of them is declared as
an entry point of an installed distribution, and the library looks it up here, by group and name:

``plainchant.protocols``
    name -> ``protocols.registry.Description`` of a protocol.
``plainchant.transports``
    name -> ``make(address, packet)``, which returns a ``live.transport.Transport``.
``plainchant.verifiers``
    name -> a ``trace.verifier.Verifier``. ``sim.run`` uses ``reference``, which the laboratory provides.
``plainchant.pages``
    name -> ``make(place, address)``, which returns a page that a node serves. ``Node(watch=...)`` uses ``watch``, which the
    laboratory provides.

Finding a plug-in reads the metadata of installed distributions only; loading it runs its code. A plug-in that cannot be loaded
raises :class:`PluginError`, which names its distribution, and leaves the others usable.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from importlib import import_module
from itertools import groupby
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any

from .model import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class PluginError(UsageError):
    """An installed plug-in cannot be used."""


class PluginWarning(UserWarning):
    """An installed plug-in was left out of a list because it cannot be used."""


@dataclasses.dataclass(frozen=True, slots=True)
class Plugin:
    """One entry point, not loaded yet."""

    group: str
    name: str
    entry: EntryPoint
    distribution: str  # name and version of the distribution that declares it
    rivals: tuple[str, ...] = ()  # other distributions that declare the same name

    def load(self) -> Any:
        """The object that the entry point names."""
        if self.rivals:
            others = ", ".join((self.distribution, *self.rivals))
            raise self.error(f"several distributions declare it ({others}); uninstall all but one")
        try:
            return self.entry.load()
        except ModuleNotFoundError as error:
            raise self.error(f"there is no module {error.name!r}; install it, or reinstall {self.distribution}") from error
        except Exception as error:  # whatever a stranger's module raises while it is imported
            raise self.error(f"{type(error).__name__}: {error}; update or uninstall {self.distribution}") from error

    def error(self, problem: str) -> PluginError:
        """What is wrong with this plug-in, as an error that names it and its distribution."""
        return PluginError(f"cannot load {self.name!r} ({self.group}, {self.entry.value}) of {self.distribution}: {problem}")


@functools.cache
def plugins(group: str) -> Mapping[str, Plugin]:
    """The plug-ins of a group by name, in alphabetical order. A process looks once.

    >>> sorted(plugins("plainchant.verifiers"))
    ['reference']
    """
    from importlib import metadata  # slow to import, and most processes need no plug-in

    entries = sorted(metadata.entry_points(group=group), key=lambda entry: (entry.name, _distribution(entry)))
    found: dict[str, Plugin] = {}
    for name, same in groupby(entries, key=lambda entry: entry.name):
        first, *others = same
        found[name] = Plugin(group, name, first, _distribution(first), tuple(map(_distribution, others)))
    return found


def load(group: str, name: str, what: str, extra: str) -> Any:
    """The plug-in ``name`` of a group, for a feature that the library itself offers. ``what`` says which feature needs it
    ("result.verdict needs"), ``extra`` which extra of plainchant brings it, for the error."""
    plugin = plugins(group).get(name)
    if plugin is None:
        raise PluginError(f"{what} the plug-in {name!r} ({group}), which is not installed: {install(extra)}")
    try:
        return plugin.load()
    except PluginError as error:
        if isinstance(error.__cause__, ImportError):
            raise missing(error.__cause__, what, extra) from error.__cause__
        raise


def need(module: str, what: str, extra: str) -> Any:
    """A module of a package that comes with an extra; ``what`` and ``extra`` are for the error, as in :func:`load`.

    >>> need("json", "an example needs", "cli").__name__
    'json'
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise missing(error, what, extra, module) from error


def missing(error: ImportError, what: str, extra: str, module: str = "") -> UsageError:
    """The error for a feature whose packages are not installed.

    >>> print(missing(ImportError(name="pyarrow.lib"), "result.trace needs", "cli"))
    result.trace needs the package pyarrow, which is not installed: pip install 'plainchant[cli]'
    """
    package = (error.name or module).partition(".")[0]
    return UsageError(f"{what} the package {package}, which is not installed: {install(extra)}")


def install(extra: str) -> str:
    """The command that installs an extra."""
    return f"pip install 'plainchant[{extra}]'"


def parts(package: str) -> list[str]:
    """The names of a package's own sub-packages, in alphabetical order; nothing of them is imported."""
    return sorted(module.name for module in iter_modules(import_module(package).__path__) if module.ispkg)


def part(package: str, name: str) -> Any:
    """A sub-package, imported."""
    return import_module(f"{package}.{name}")


def _distribution(entry: EntryPoint) -> str:
    dist = entry.dist
    return f"{dist.name} {dist.version}" if dist is not None else "an unnamed distribution"
