"""Reads YAML files that users write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from pyrite.ranking.errors import BadInput


class _Loader(yaml.SafeLoader):
    """Refuses a key that is given twice, of which YAML takes the last."""

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        keys = [self.construct_object(key, deep=True) for key, _ in node.value]
        for place, key in enumerate(keys):
            if key in keys[:place]:
                raise yaml.MarkedYAMLError(
                    problem=f"{key!r} is given twice", problem_mark=node.value[place][0].start_mark
                )
        return super().construct_mapping(node, deep)


def read_yaml(path: str) -> Any:
    """Return the content of a YAML file in UTF-8; refuse what is no YAML, and keys that are given twice."""
    try:
        return yaml.load(Path(path).read_text(encoding="utf-8"), _Loader)
    except yaml.MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        remedy = "write blanks, not tabs" if "'\\t'" in str(error.problem) else None
        raise BadInput(f"can't be read ({error.problem})", f"{path}{line}", remedy) from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        why = (isinstance(error, OSError) and error.strerror) or " ".join(str(error).split())
        raise BadInput(f"can't be read ({why})", path) from None
