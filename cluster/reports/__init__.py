"""Writes the tables, figures and pages of finished commands; imports no Ray."""
