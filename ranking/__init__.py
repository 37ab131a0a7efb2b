"""Trains and evaluates rankers on test collections. Imports no Ray."""

from pyrite.ranking.compile_cache import choose_compile_cache

if __name__ == "ranking":  # imported from the folder of a checkout, as a second copy of it
    raise ImportError("ranking is pyrite.ranking since version 0.3", name="ranking")

choose_compile_cache()
