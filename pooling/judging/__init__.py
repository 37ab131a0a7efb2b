"""Judging by people: `session` decides who gets which document, `store` keeps every event, `server` is the page."""
