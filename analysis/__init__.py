"""Compares the runs of studies: statistics, tables, figures and pages.

Everything is made from frames that are handed over; nothing here reads folders, starts runs or imports Ray.
"""
