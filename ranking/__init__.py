"""Trains and evaluates rankers on test collections. Imports no Ray."""

from pyrite.ranking.compile_cache import choose_compile_cache

choose_compile_cache()
