"""Real jobs, each written twice: in plain PySpark for batch mode, and as a dataflow."""

from tests.differential.jobs import commerce, keyed, nexmark, words

JOBS = (
    *(words.WORD_COUNT, words.WINDOWED_COUNT, words.SESSIONIZATION),
    *(nexmark.Q0, nexmark.Q1, nexmark.Q2, nexmark.Q3, nexmark.Q4, nexmark.Q5),
    *(nexmark.Q7, nexmark.Q8),
    *(commerce.YAHOO, commerce.UPSERTS, commerce.QUARANTINE, commerce.PYTHON_QUARANTINE),
    *(commerce.DEDUPLICATION, *keyed.JOINS),
    *(keyed.SALES_SUMS, *keyed.ZONES, keyed.TOP_PAGES),
)

EVERY_TIME = (
    words.WINDOWED_COUNT,
    words.SESSIONIZATION,
    nexmark.Q4,
    commerce.UPSERTS,
    commerce.YAHOO,
    commerce.QUARANTINE,
    keyed.JOINS[3],
    keyed.ZONES[0],
)
"""Jobs that `make test` runs: each shows something that the others do not."""
