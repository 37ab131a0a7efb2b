"""Reads YAML files that users write."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import yaml

from pyrite.ranking.errors import BadInput

_TEXT = yaml.resolver.BaseResolver.DEFAULT_SCALAR_TAG


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML takes the last.

    Args:
        names: keys of lists of names, which stay as they are written: YAML takes 010 for eight and 1:30 for ninety.
    """

    def __init__(self, text: str, names: Collection[str]) -> None:
        super().__init__(text)
        self._names = names

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for key, (_, value) in zip(keys, node.value, strict=True):
            if key in self._names and isinstance(value, yaml.SequenceNode):
                for name in value.value:
                    name.tag = _TEXT if isinstance(name, yaml.ScalarNode) else name.tag
        for place, key in enumerate(keys):
            if key in keys[:place]:
                raise yaml.MarkedYAMLError(
                    problem=f"{key!r} is given twice", problem_mark=node.value[place][0].start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(path: str, names: Collection[str] = ()) -> Any:
    """Return the content of a YAML file in UTF-8; refuse what is no YAML, and keys that are given twice.

    Args:
        names: keys of lists of names, which are texts even if they look like numbers.
    """
    try:
        return _Loader(Path(path).read_text(encoding="utf-8"), names).get_single_data()
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        remedy = "write blanks, not tabs" if "'\\t'" in str(error.problem) else None
        raise BadInput(f"can't be read ({error.problem})", f"{path}{line}", remedy) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        raise BadInput(f"can't be read ({why})", path) from None
