"""The classes of a package, so that tests hold new ones to what all promise."""

import importlib
import inspect
import pkgutil
from types import ModuleType


def classes_in(package: ModuleType, *kinds: type) -> set[type]:
    """The classes in files of the package, and of packages within, that are of one of the kinds and can be made."""
    found = set[type]()
    for file in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        members = inspect.getmembers(importlib.import_module(file.name), inspect.isclass)
        found |= {each for _, each in members if each.__module__ == file.name and issubclass(each, kinds)}
    return {each for each in found if not inspect.isabstract(each)}
