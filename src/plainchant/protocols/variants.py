"""Variants of a protocol: the same code with one rule taken out or replaced. Laboratory equipment, no part of a protocol.

Theory of operation
-------------------
A rule of a protocol is a function or a method. A :class:`Variant` is a named list of replacements for such functions. While it
is *applied* the replacements stand in the classes and modules themselves, so every engine of this operating system process runs
the variant; afterwards the originals are back. Production code knows nothing of variants and needs no switches for them.

A variant holds functions and does not travel between processes. Its name does: a worker process or a Spark task looks the name
up in the :class:`Variants` of the module that defines it, and applies the variant there for the time of its run. Runs in one
process come one after the other; variants are not meant for threads.

A replacement must replace something: an attribute that the owner itself does not define is refused when the variant is defined.
A variant of which no replacement is called cannot change anything; ``applied(must_act=True)`` makes that an error.

>>> import fractions
>>> wrong = Variants()
>>> @wrong.replaces("equality by identity", fractions.Fraction, "__eq__")
... def _identical(self, other):
...     return self is other
>>> with wrong["equality by identity"].applied(must_act=True):
...     fractions.Fraction(1, 2) == fractions.Fraction(2, 4)
False
>>> fractions.Fraction(1, 2) == fractions.Fraction(2, 4)
True
"""

from __future__ import annotations

import dataclasses
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from types import FunctionType, ModuleType
from typing import Any, TypeVar

from ..core.model import UsageError

_Function = TypeVar("_Function")


class Calls(Counter[str]):
    """How often each replacement was called. A type of its own, so that the explorer can leave it out of a run's state."""


@dataclasses.dataclass(frozen=True)
class Replacement:
    """One rule, and what stands in its place."""

    owner: type | ModuleType  # The class that defines the method, or the module that calls the function by this name
    attribute: str
    by: Any

    def __post_init__(self) -> None:
        if self.attribute not in vars(self.owner):
            raise UsageError(f"{self.owner.__name__} does not define {self.attribute}, so there is nothing to replace")
        if vars(self.owner)[self.attribute] is self.by:
            raise UsageError(f"{self.owner.__name__}.{self.attribute} would be replaced by itself")

    def __str__(self) -> str:
        return f"{self.owner.__name__}.{self.attribute}"

    @contextmanager
    def applied(self, calls: Calls) -> Iterator[None]:
        original = vars(self.owner)[self.attribute]
        setattr(self.owner, self.attribute, _counting(self.by, str(self), calls))
        try:
            yield
        finally:
            setattr(self.owner, self.attribute, original)


@dataclasses.dataclass(frozen=True)
class Variant:
    """A protocol with some rules replaced; without replacements it is the protocol itself."""

    name: str = ""
    replacements: tuple[Replacement, ...] = ()

    def __add__(self, other: Variant) -> Variant:
        """Both at once; they must not replace the same rule."""
        name = " and ".join(each.name for each in (self, other) if each.name)
        for rule in {str(each) for each in self.replacements}.intersection(str(each) for each in other.replacements):
            raise UsageError(f"{name} do not go together: both replace {rule}")
        return Variant(name, self.replacements + other.replacements)

    @contextmanager
    def applied(self, *, must_act: bool = False) -> Iterator[Calls]:
        """Within it the protocol is this variant. Gives the number of calls of each replacement. With ``must_act`` it is an error
        if none was called: such a variant is the protocol itself under another name."""
        calls = Calls()
        with ExitStack() as stack:
            for replacement in self.replacements:
                stack.enter_context(replacement.applied(calls))
            yield calls
        if must_act and self.replacements and not calls.total():
            rules = ", ".join(map(str, self.replacements))
            raise UsageError(f"variant {self.name!r} cannot act: nothing called {rules} in this run")


AS_BUILT = Variant()  # The protocol itself


class Variants(dict[str, Variant]):
    """Variants by name. The empty name stands for the protocol itself."""

    def __missing__(self, name: str) -> Variant:
        if not name:
            return AS_BUILT
        raise UsageError(f"there is no variant {name!r}; there are: {', '.join(self)}")

    def replaces(self, name: str, owner: type | ModuleType, attribute: str) -> Callable[[_Function], _Function]:
        """Decorator: the function replaces a rule in the variant of this name. A variant may replace several rules."""

        def enter(by: _Function) -> _Function:
            before = self.get(name, Variant(name))
            self[name] = Variant(name, (*before.replacements, Replacement(owner, attribute, by)))
            return by

        return enter

    def together(self, *names: str) -> Variant:
        """These variants at once; of none of them: the protocol itself."""
        return sum((self[name] for name in names), AS_BUILT)


def replaced(owner: type | ModuleType, attribute: str, by: Any) -> AbstractContextManager[Calls]:
    """Within it one rule is another, which must be called: for a test of its own, where a rule is taken out only once."""
    return Variant(attribute, (Replacement(owner, attribute, by),)).applied(must_act=True)


def _counting(by: Any, name: str, calls: Calls) -> Any:
    """The replacement, counting its calls. What cannot be called counts as called: it is a value that stands there."""
    if isinstance(by, property) and by.fget is not None:
        return property(_counting(by.fget, name, calls))
    if isinstance(by, staticmethod):
        return staticmethod(_counting(by.__func__, name, calls))
    if not isinstance(by, FunctionType):
        calls[name] += 1
        return by

    @functools.wraps(by)
    def counted(*arguments: Any, **named: Any) -> Any:
        calls[name] += 1
        return by(*arguments, **named)

    return counted
