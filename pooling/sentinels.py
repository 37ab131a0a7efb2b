"""Names the numbers in arrays that represent absence: no document, not handed out yet, no grade."""

NO_DOCUMENT = -1
"""Instead of a document: beyond the end of a run, or when nothing is left to judge."""
NO_ARM = -1
"""Instead of a run or team: none was played yet, or all are exhausted."""
NO_SLOT = -1
"""Instead of a slot of a shared budget: the document was not handed out yet."""

NO_GRADE = -1
"""Instead of a machine's grade: it gave the document none."""

OPEN = -1
"""Instead of the supplier of a document: it was not handed out yet."""
OUTSIDE = -2
"""Instead of the supplier of a document: it was judged without having been handed out, so no run supplied it."""
