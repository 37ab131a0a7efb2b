"""Mine hard negatives for sentence-transformers, without those that are probably relevant."""

import pyrite
from pyrite import BM25, Collection, Guard

mined = pyrite.mine(Collection.from_pairs("pairs.csv"), BM25(3), guard=Guard(relative=0.05))
print(mined.dataset)  # query, positive, negative_1, …: what SentenceTransformerTrainer takes
print(mined.explain())
print("to load it later: datasets.load_dataset('parquet', data_dir=FOLDER + '/data'), FOLDER being", mined.folder)
