"""Hypothesis strategies for random queries. Every step is drawn to fit the columns before it."""

from __future__ import annotations

from hypothesis import strategies as st

from tests.differential import queries as q
from tests.differential.queries import ID, TIME, Columns

NESTED = "struct<innerName:string,dateTime:timestamp,Deep:struct<Val:bigint,Tags:array<string>>>"
POOL: Columns = (
    ("Key", "string"),
    ("größe", "int"),
    ("Amount", "decimal(10,2)"),
    ("isNew", "boolean"),
    ("Tags", "array<string>"),
    ("Props", "map<string,bigint>"),
    ("Payload", NESTED),
    ("lineItems", "array<struct<skuId:string,Qty:int>>"),
    ("byName", "map<string,struct<Alpha:int>>"),
    ("soldOn", "date"),
    ("Ratio", "double"),
)
"""Columns that a table may have beside its number and its time."""

EXPRESSIONS = {
    "string": (("upper({c})", "string"), ("length({c})", "int"), ("concat({c}, 'ß')", "string")),
    "int": (("{c} + 1", "int"), ("CAST({c} AS string)", "string")),
    "bigint": (("{c} % 7", "bigint"), ("CAST({c} AS decimal(20,0))", "decimal(20,0)")),
    "decimal(10,2)": (("CAST({c} / 3 AS decimal(10,2))", "decimal(10,2)"), ("{c} > 0", "boolean")),
    "boolean": (("NOT {c}", "boolean"), ("if({c}, 1, 0)", "int")),
    "double": (("{c} * 0.5D", "double"), ("CAST({c} AS decimal(10,2))", "decimal(10,2)")),
    "date": (("date_add({c}, 1)", "date"), ("CAST({c} AS timestamp)", "timestamp")),
    "timestamp": (
        ("hour({c})", "int"),
        ("date_trunc('DAY', {c})", "timestamp"),
        ("date_format({c}, 'yyyy-MM-dd HH:mm')", "string"),
        ("CAST({c} AS date)", "date"),
    ),
    "array<string>": (("size({c})", "int"), ("get({c}, 0)", "string")),
    "map<string,bigint>": (
        ("try_element_at({c}, 'a')", "bigint"),
        ("map_keys({c})", "array<string>"),
    ),
    "map<string,struct<Alpha:int>>": (("try_element_at({c}, 'a').Alpha", "int"),),
    "array<struct<skuId:string,Qty:int>>": (("{c}.skuId", "array<string>"),),
    NESTED: (
        ("{c}.innerName", "string"),
        ("{c}.dateTime", "timestamp"),
        ("{c}.Deep.Val", "bigint"),
        ("{c}.Deep", "struct<Val:bigint,Tags:array<string>>"),
    ),
}
"""SQL over a column by its type, and the type that comes out."""

CHANGED = ("string", "int", "bigint", "boolean", "array<string>", NESTED)
"""Types that the Python function of a map step can change."""

SIMPLE = ("string", "int", "bigint", "boolean", "date", "decimal(10,2)")
"""Types that a stateful processor is keyed by."""

MODULI = st.sampled_from((2, 3, 5))


ENDINGS = ("aggregate", "window", "final", "once", "join")
"""What a query may end with: groups or windows that are updated, windows that are sent once,
de-duplication or a processor, a join; the last three with another stateful step or without."""


@st.composite
def any_query(draw: st.DrawFn, endings: tuple[str, ...] = (*ENDINGS, "none")) -> q.Query:
    """A query of up to two stateful steps, with stateless ones before them."""
    late = draw(st.integers(0, 30))
    one, two = draw(tables()), draw(tables())
    steps, columns = _stateless(draw, one, draw(st.integers(0, 3)))
    if draw(st.sampled_from((False, False, True))):
        steps = (*steps, _union(draw, columns))
    steps = (*steps, *_ending(draw, draw(st.sampled_from(endings)), columns, two, late))
    return q.Query(
        one,
        two,
        steps,
        rows=draw(st.integers(20, 120)),
        late=late,
        seed=draw(st.integers(0, 999)),
        format=draw(st.sampled_from(("json", "parquet"))),
        zone=draw(st.sampled_from(("UTC", "UTC", "Europe/Berlin", "America/New_York"))),
    )


@st.composite
def tables(draw: st.DrawFn) -> Columns:
    """Columns of a table: always a number and a time, then some of the pool in any order."""
    some = draw(st.lists(st.sampled_from(POOL), min_size=1, max_size=5, unique=True))
    return ((ID, "bigint"), (TIME, "timestamp"), *some)


def _stateless(draw: st.DrawFn, columns: Columns, count: int) -> tuple[tuple[q.Step, ...], Columns]:
    steps: list[q.Step] = []
    for number in range(count):
        step, columns = _step(draw, columns, f"new{number}")
        steps.append(step)
    return tuple(steps), columns


def _step(draw: st.DrawFn, columns: Columns, name: str) -> tuple[q.Step, Columns]:
    free = [one for one in columns if one[0] not in (ID, TIME)]
    arrays = [one for one in free if one[1].startswith("array<")]
    forms = ["where", "put", "map", "flat_map", "filter", "arrow"]
    form = draw(st.sampled_from(forms + ["select"] * bool(free) + ["explode"] * bool(arrays)))
    if form == "put":
        column, kind = draw(st.sampled_from([one for one in columns if one[1] in EXPRESSIONS]))
        sql, after = draw(st.sampled_from(EXPRESSIONS[kind]))
        target = draw(st.sampled_from([name, *(n for n, _ in free)]))
        rest = tuple(one for one in columns if one[0] != target)
        if len(rest) == len(columns):
            made = (*columns, (target, after))
        else:
            made = tuple((n, after if n == target else k) for n, k in columns)
        return q.Put(target, sql.format(c=f"`{column}`")), made
    if form == "select":
        some = draw(st.lists(st.sampled_from(free), min_size=1, max_size=4, unique=True))
        made = (*some, *(one for one in columns if one[0] in (ID, TIME)))
        return q.Select(tuple(n for n, _ in made)), made
    if form == "explode":
        column, kind = draw(st.sampled_from(arrays))
        element = kind.removeprefix("array<").removesuffix(">")
        made = tuple((n, element if n == column else k) for n, k in columns)
        return q.Explode(column, draw(st.booleans())), made
    return _same_columns(draw, form, columns), columns


def _same_columns(draw: st.DrawFn, form: str, columns: Columns) -> q.Step:
    """A step that leaves the columns as they are. Remainder 1 passes: the flush row has it."""
    modulus = draw(MODULI)
    changed = [one for one in columns if one[1] in CHANGED and one[0] != ID]
    match form:
        case "map" if changed:
            return q.Map(*draw(st.sampled_from(changed)), columns)
        case "flat_map":
            return q.FlatMap(modulus, columns)
        case "arrow":
            return q.Arrow(modulus, columns)
        case "filter":
            return q.Filter(modulus)
        case _:
            return q.Where(f"{ID} % {modulus} <> 0")


def _union(draw: st.DrawFn, columns: Columns) -> q.Union:
    forms = st.sampled_from(("where", "map", "flat_map", "filter", "arrow"))
    one, two = ((_same_columns(draw, draw(forms), columns),) for _ in range(2))
    return q.Union(one, two)


def _ending(
    draw: st.DrawFn, ending: str, columns: Columns, two: Columns, late: int
) -> tuple[q.Step, ...]:
    delay = late + 1
    match ending:
        case "aggregate":
            return (_aggregate(draw, columns),)
        case "window":
            window = _window(draw, draw(st.sampled_from((None, delay))))
            return (_aggregate(draw, columns, window),)
        case "final":
            window = _window(draw, delay)
            first = _aggregate(draw, columns, window, final=True)
            if draw(st.booleans()):
                return (first,)
            sums = (("Windows", "count(*)"), ("allRows", "sum(nRows)"))
            longer = q.Window("Start", 4 * window.size)
            return (first, q.Aggregate(first.names[:1], sums, longer, final=True))
        case "once":
            return _once(draw, columns)
        case "join":
            return _join(draw, columns, two)
        case _:
            return ()


def _grouping(draw: st.DrawFn, columns: Columns) -> tuple[tuple[str, str], ...]:
    """Columns that Spark can group by, with few different values where there are such."""
    fit = [one for one in columns if "map<" not in one[1] and one[0] not in (ID, TIME)]
    fit = fit or [one for one in columns if one[0] == ID]
    return tuple(draw(st.lists(st.sampled_from(fit), min_size=1, max_size=2, unique=True)))


def _aggregate(
    draw: st.DrawFn, columns: Columns, window: q.Window | None = None, final: bool = False
) -> q.Aggregate:
    names = tuple(n for n, _ in _grouping(draw, columns))
    sums = [("nRows", "count(*)")]
    for name, kind in columns:
        if name in names or not draw(st.booleans()):
            continue
        if kind in ("int", "bigint") or kind.startswith("decimal"):
            sums.append((f"sumOf{len(sums)}", f"sum(`{name}`)"))
        elif kind == "string":
            sums.append((f"setOf{len(sums)}", f"sort_array(collect_set(`{name}`))"))
        elif "map<" not in kind:
            sums.append((f"maxOf{len(sums)}", f"max(`{name}`)"))
        else:
            sums.append((f"filled{len(sums)}", f"count(`{name}`)"))
    return q.Aggregate(names, tuple(sums), window, final)


def _window(draw: st.DrawFn, delay: int | None) -> q.Window:
    size = draw(st.sampled_from((10, 30, 60)))
    slide = draw(st.sampled_from((None, None, size // 2)))
    return q.Window(TIME, size, slide, delay)


def _once(draw: st.DrawFn, columns: Columns) -> tuple[q.Step, ...]:
    """De-duplication or a processor, and maybe an aggregation of what comes out."""
    keys = _grouping(draw, columns)
    if draw(st.booleans()):
        timed = draw(st.booleans())
        names = (*(n for n, _ in keys), *((TIME,) if timed else ()))
        step: q.Step = q.Deduplicate(names, timed)
    else:
        simple = [one for one in columns if one[1] in SIMPLE and one[0] != ID]
        keys = (draw(st.sampled_from(simple or [(ID, "bigint")])),)
        step = q.Process(*keys[0])
    if draw(st.booleans()):
        return (step,)
    return (step, q.Aggregate((keys[0][0],), (("nRows", "count(*)"),)))


def _join(draw: st.DrawFn, columns: Columns, two: Columns) -> tuple[q.Step, ...]:
    common = [one for one in columns if one in two and one[1] in ("string", "int", "boolean")]
    key = draw(st.sampled_from(common or [(ID, "bigint")]))[0]
    forms = st.sampled_from(("where", "map", "flat_map", "filter", "arrow"))
    steps = tuple(_same_columns(draw, draw(forms), two) for _ in range(draw(st.integers(0, 1))))
    how = draw(st.sampled_from(("inner", "left_outer", "right_outer", "full_outer")))
    join = q.Join(steps, key, how, draw(st.sampled_from((5, 20))))
    if draw(st.booleans()):
        return (join,)
    return (join, q.Aggregate((key,), (("nRows", "count(*)"), ("times", f"max(`{TIME}`)"))))
