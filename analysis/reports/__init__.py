"""Lays out the tables, figures and pages of finished commands."""
