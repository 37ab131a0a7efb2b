"""Runs everything on Ray: command line, studies, index actors, jobs. No other package imports it."""

import os

# Ray reads these when it is imported, so they stand here, before anything of ours can import it. A local
# cluster asks for a token and a client does not send one unless both are told to. A job is told by its cluster: one
# that asks for no token says nothing.
if "RAY_JOB_CONFIG_JSON_ENV_VAR" not in os.environ:
    os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # Ray's coming default; unset, it warns
