"""Names content by its digest, for caches and files."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(content: Any) -> str:
    """Return 16 hex digits that identify a JSON value."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
