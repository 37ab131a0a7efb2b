"""Names content by a digest of it, for caches and files."""

from __future__ import annotations

import hashlib
import json
from typing import Any


def digest(content: Any) -> str:
    """16 hex digits that name what JSON can hold."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]
