"""The dataflows of the papers, with seeded generators. Modules are imported when needed."""

from __future__ import annotations

from penstock.workloads import Workload

WORKLOADS = (
    Workload(
        "wordcount",
        "generated tweets in JSON: parse, split into words, count each word",
        "Stepwise profiling, figure 3; Joker, figure 17",
        f"{__name__}.wordcount:build",
    ),
    Workload(
        "synthetic-wordcount",
        "the word count with a wait of 1 ms before the parser",
        "Stepwise profiling, section 6.1.1",
        f"{__name__}.synthetic_wordcount:build",
    ),
    Workload(
        "twitter-analysis",
        "language, mood and hashtags of tweets: 11 operators, 8 deep; needs penstock-lab[apps]",
        "Stepwise profiling, figure 10",
        f"{__name__}.twitter_analysis:build",
    ),
    Workload(
        "linear",
        "a chain of three operators, each bound by CPU, parsing or waiting",
        "Stela, figure 4b; Stepwise profiling, figure 9",
        f"{__name__}.linear:build",
    ),
    Workload(
        "diamond",
        "every record through four operators side by side, then together again",
        "Stela, figure 4c; Stepwise profiling, figure 9",
        f"{__name__}.diamond:build",
    ),
    Workload(
        "star",
        "two sources into one operator, out of it into two sinks",
        "Stela, figure 4a; Stepwise profiling, figure 9",
        f"{__name__}.star:build",
    ),
    Workload(
        "page-load",
        "page views: transform, filter, join, filter, aggregate in windows",
        "Stela, figure 5a",
        f"{__name__}.page_load:build",
    ),
    Workload(
        "processing",
        "page views: transformed, then failures one way and normalised times the other",
        "Stela, figure 5b",
        f"{__name__}.processing:build",
    ),
    Workload(
        "network",
        "connections: scans and floods side by side, then scores by host",
        "Stela, figure 5c",
        f"{__name__}.network:build",
    ),
    Workload(
        "region-4",
        "one region of four multiplication operators",
        "Joker, figure 4",
        f"{__name__}.region:build",
    ),
    Workload(
        "region-5",
        "one region of five multiplication operators, three of them costly",
        "Joker, figure 16",
        f"{__name__}.region:build",
        {"multiplications": "1024,32,32,1024,1024"},
    ),
    Workload(
        "regions-7",
        "seven multiplication operators of unequal cost, selectivity and state",
        "Joker, figure 21",
        f"{__name__}.regions:build",
    ),
    Workload(
        "tree",
        "one region of a multiplication operator into two",
        "Joker, figure 7a",
        f"{__name__}.tree:build",
    ),
    Workload(
        "reverse-tree",
        "two regions of a multiplication operator into one",
        "Joker, figure 7b",
        f"{__name__}.reverse_tree:build",
    ),
    Workload(
        "chain-2",
        "two regions of one multiplication operator each",
        "Joker, figures 7c and 9",
        f"{__name__}.chain:build",
    ),
    Workload(
        "chain-4",
        "two regions of two multiplication operators each",
        "Joker, figure 7d",
        f"{__name__}.chain:build",
        {"operators": 4},
    ),
    Workload(
        "selectivity",
        "one region whose records become four times as many, a quarter, a half",
        "Joker, figure 10",
        f"{__name__}.selectivity:build",
    ),
    Workload(
        "finance",
        "trades and quotes: volume-weighted average prices, and bargains against them",
        "Joker, figure 17",
        f"{__name__}.finance:build",
    ),
    Workload(
        "break-ins",
        "an ssh log: addresses from which passwords are guessed",
        "Joker, figure 17",
        f"{__name__}.break_ins:build",
    ),
    Workload(
        "prime-tester",
        "numbers are tested for being prime, at a rate in steps up and down",
        "Nephele, figure 2",
        f"{__name__}.prime_tester:build",
    ),
    Workload(
        "twitter-sentiment",
        "moods of tweets about hot topics, two constraints; needs penstock-lab[apps]",
        "Nephele, figure 7",
        f"{__name__}.twitter_sentiment:build",
    ),
    Workload(
        "commodity-count",
        "clicks in a shop: how often each item is seen",
        "Es-Stream, section II, figure 1",
        f"{__name__}.commodity_count:build",
    ),
    Workload(
        "top-n",
        "clicks in a shop: the items that sell best",
        "Es-Stream, section II, figure 2",
        f"{__name__}.top_n:build",
    ),
)
