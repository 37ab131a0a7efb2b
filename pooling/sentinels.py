"""Names the numbers that stand in arrays for what is not there: no document, nobody yet, no judgement."""

NO_DOCUMENT = -1
"""In place of a document: beyond the end of a run, or when nothing is left to judge."""
NO_ARM = -1
"""In place of a run or team: none was played yet, or all are exhausted."""
NO_SLOT = -1
"""In place of a slot of a shared budget: the document was not handed out yet."""

NO_GRADE = -1
"""In place of a machine's grade: it gave the document none."""

OPEN = -1
"""In place of who supplied a document: it was not handed out yet."""
OUTSIDE = -2
"""In place of who supplied a document: it was judged without having been handed out, so no run did."""

UNPOOLED, UNJUDGED, NOT_RELEVANT, RELEVANT = -2, -1, 0, 1
"""What is known of a document. Qrels for trec_eval mark pooled documents without a judgement by -1 as well."""
