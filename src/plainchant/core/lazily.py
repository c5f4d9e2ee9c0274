"""Packages whose names are imported when they are first used, so that a program pays only for what it needs.

A live member needs neither Arrow nor Spark, and starts in a tenth of the time without them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType


def exports(package: str, homes: Mapping[str, str]) -> Callable[[str], object]:
    """A package's ``__getattr__``: ``homes`` maps each name to the module that has it (the name itself: it is that module)."""

    def find(name: str) -> object:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = import_module(f"{package}.{homes[name]}")
        value: object = module if homes[name] == name else getattr(module, name)
        setattr(sys.modules[package], name, value)
        return value

    return find


def callable_as(package: str, home: str) -> None:
    """Makes a package a function too, so that both have its name: calling it calls the function of that name in ``home``."""

    class CallablePackage(ModuleType):
        def __call__(self, *args: object, **options: object) -> object:
            return getattr(import_module(home), package.rpartition(".")[2])(*args, **options)

    sys.modules[package].__class__ = CallablePackage
