"""Measures speed and memory, one command each: python -m benchmarks.NAME.

Each command says in `SMALLEST` with which options it takes seconds, as lines of arguments in which `{collection}` is a
BEIR folder, `{trec8}` one with runs and judgements, and `{small_bert}` and `{minilm}` are checkpoints;
`tests/test_benchmarks.py` has these and runs every line.
"""
