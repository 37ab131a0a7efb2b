"""Reads what `ray job submit` takes too: headers, certificates, variables, the runtime environment."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyrite.ranking.errors import BadInput, refuse

HEADERS = "RAY_JOB_HEADERS"
OURS = {
    **dict.fromkeys(("working_dir", "excludes"), "use --working-dir and --exclude"),
    "py_modules": "put modules into the working folder",
}
"""Keys of a runtime environment that other options set, and what to do instead."""
SWITCHES = {"true": True, "1": True, "false": False, "0": False}


@dataclass(frozen=True)
class Access:
    """How a job server is asked.

    Args:
        headers: of each request, for example those that a proxy in front of the server wants.
        verify: whether certificates are checked, or a file or folder of trusted ones.
    """

    headers: Mapping[str, str] = field(default_factory=dict)
    verify: bool | str = True

    @classmethod
    def of(cls, headers: str | None, verify: str) -> Access:
        """Read `--headers`, or RAY_JOB_HEADERS, and `--verify`."""
        named, text = (HEADERS, os.environ.get(HEADERS)) if headers is None else ("--headers", headers)
        given = _mapping(text, named)
        wrong = [name for name, value in given.items() if not isinstance(value, str)]
        refuse(wrong, "the header {} is no text", named, 'write \'{"X-Name": "value"}\'')
        checked = SWITCHES.get(verify.lower(), verify)
        refuse(
            isinstance(checked, str) and not os.path.exists(checked),
            "there is no such file",
            verify,
            "name certificates, or give --verify true or false",
        )
        return cls(given, checked)


def variables(given: Iterable[str]) -> dict[str, str]:
    """Read `--env NAME=VALUE`, or `--env NAME`, which takes this environment's value."""
    read = {}
    for text in given:
        name, equals, value = text.partition("=")
        refuse(
            not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII),
            f"{name!r} is no name of a variable",
            "--env",
            "write --env NAME or --env NAME=VALUE",
        )
        refuse(
            not equals and name not in os.environ,
            f"{name} is not set in this environment",
            "--env",
            f"set it, or write --env {name}=VALUE",
        )
        read[name] = value if equals else os.environ[name]
    return read


def runtime_environment(text: str | None) -> dict[str, Any]:
    """Read `--runtime-env-json`, without what other options set."""
    given = _mapping(text, "--runtime-env-json")
    if taken := next((key for key in OURS if key in given), None):
        raise BadInput(f"{taken} is set by pyrite submit itself", "--runtime-env-json", OURS[taken])
    refuse(
        not isinstance(given.get("env_vars", {}), dict),
        "env_vars is no mapping",
        "--runtime-env-json",
        'write \'{"env_vars": {"NAME": "VALUE"}}\'',
    )
    return given


def _mapping(text: str | None, named: str) -> dict[str, Any]:
    from pydantic import TypeAdapter, ValidationError

    try:
        return TypeAdapter(dict[str, Any]).validate_json(text or "{}")
    except ValidationError:
        raise BadInput("is no JSON object", named, 'write \'{"NAME": "VALUE"}\'') from None
