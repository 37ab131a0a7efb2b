"""Measures speed and memory, one command each: python -m benchmarks.NAME.

`SMALLEST` in each module lists options with which the command takes seconds, as lines of arguments in which
`{collection}` is a BEIR folder, `{trec8}` a folder with runs and judgements, and `{small_bert}` and `{minilm}` are
checkpoints. `tests/test_benchmarks.py` provides these and runs every line.
"""
