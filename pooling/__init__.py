"""Orders the judging of document pools: who is judged, when, and what it tells. Knows nothing of Ray."""
