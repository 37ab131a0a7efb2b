"""A learned policy: an agent watches a ranker train and chooses between two functions. Needs the extra rl."""

import pyrite
from pyrite import BM25, Collection, Random, Static

learning = pyrite.learn(
    Collection.from_pairs("pairs.csv"),
    Random() + BM25(),
    Static(),
    agent="actor_critic",
    scale="tiny",
    options={"workers": 0, "dashboard": False, "episodes": 8, "random_baseline": 2},
)
print(learning.episodes.tail(3))
print("to compare it with chance:", learning.comparison_command)
