"""Lets people judge a pool on a web page: `session` hands out documents, `store` records events, `server` serves."""
