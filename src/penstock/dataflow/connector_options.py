"""The options that Spark's connectors know: Spark ignores all others without a word.

Names are matched ignoring case, as Spark does. A name with a dot is a setting that Spark passes on
to Hadoop and the file format (`parquet.block.size`), so it is accepted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches


def _names(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ANY_FILES = _names(
    """maxFilesPerTrigger maxBytesPerTrigger maxCachedFiles discardCachedInputRatio maxFileAge
    latestFirst fileNameOnly cleanSource sourceArchiveDir pathGlobFilter modifiedBefore
    modifiedAfter recursiveFileLookup basePath ignoreCorruptFiles ignoreMissingFiles
    ignoredPathSegmentRegex ignoreInvalidPartitionPaths archivePathFilter timeZone"""
)
_READ = {
    "json": _names(
        """primitivesAsString prefersDecimal allowComments allowUnquotedFieldNames allowSingleQuotes
        allowNumericLeadingZeros allowNonNumericNumbers allowBackslashEscapingAnyCharacter
        allowUnquotedControlChars mode columnNameOfCorruptRecord dateFormat timestampFormat
        timestampNTZFormat timeFormat enableDateTimeParsingFallback multiLine lineSep samplingRatio
        dropFieldIfAllNull locale encoding charset inferTimestamp singleVariantColumn
        explodeEmbeddedArray useUnsafeRow"""
    ),
    "csv": _names(
        """sep delimiter header inferSchema ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace
        preferDate enforceSchema quote escape comment maxColumns maxCharsPerColumn mode
        charToEscapeQuoteEscaping locale dateFormat timestampFormat timestampNTZFormat timeFormat
        enableDateTimeParsingFallback multiLine samplingRatio emptyValue lineSep inputBufferSize
        columnNameOfCorruptRecord nullValue nanValue positiveInf negativeInf unescapedQuoteHandling
        encoding charset columnPruning singleVariantColumn"""
    ),
    "parquet": _names("mergeSchema datetimeRebaseMode int96RebaseMode"),
    "orc": _names("mergeSchema"),
    "text": _names("wholetext lineSep encoding"),
}
_ANY_WRITTEN = _names("compression maxRecordsPerFile partitionBy timeZone")
_WRITE = {
    "json": _names(
        """dateFormat timestampFormat timestampNTZFormat timeFormat encoding charset lineSep
        ignoreNullFields pretty sortKeys locale writeNonAsciiCharacterAsCodePoint"""
    ),
    "csv": _names(
        """sep delimiter header quote escape escapeQuotes quoteAll charToEscapeQuoteEscaping
        nullValue emptyValue dateFormat timestampFormat timestampNTZFormat timeFormat encoding
        charset lineSep ignoreLeadingWhiteSpace ignoreTrailingWhiteSpace locale codec"""
    ),
    "parquet": (),
}
_KAFKA = {
    "source": _names(
        """assign subscribe subscribePattern startingTimestamp startingOffsetsByTimestamp
        startingOffsets endingTimestamp endingOffsetsByTimestamp endingOffsets failOnDataLoss
        kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs
        partition.metadata.cache.ttl.ms maxOffsetsPerTrigger minOffsetsPerTrigger maxTriggerDelay
        minPartitions maxRecordsPerPartition groupIdPrefix includeHeaders
        startingOffsetsByTimestampStrategy"""
    ),
    "sink": _names("topic includeHeaders"),
}


def unknown(format: str, end: str, options: Mapping[str, str]) -> Iterator[str]:
    """Yield a message for each option that Spark would ignore; `end` is `source` or `sink`.

    Formats that are not Spark's own are not checked.
    """
    kafka = format == "kafka"
    known = _known(format, end)
    if known is None:
        return
    lower = {name.lower() for name in known}
    for name in options:
        passed = name.lower().startswith("kafka.") if kafka else "." in name
        if name.lower() in lower or passed:
            continue
        meant = f"kafka.{name}" if kafka and "." in name else _closest(name, known)
        yield (
            f"'{name}' is no option of a {format} {end}, so Spark would ignore it"
            + (f"; did you mean '{meant}'?" if meant else f"; known are {', '.join(known)}")
        )


def _known(format: str, end: str) -> tuple[str, ...] | None:
    if format == "kafka":
        return _KAFKA[end]
    table, everywhere = (_READ, _ANY_FILES) if end == "source" else (_WRITE, _ANY_WRITTEN)
    return (*table[format], *everywhere) if format in table else None


def _closest(name: str, known: Iterable[str]) -> str:
    by_lower = {one.lower(): one for one in known}
    close = get_close_matches(name.lower(), by_lower, 1)
    return by_lower[close[0]] if close else ""
