"""Parts of pages that are made from the code while the pages are built, so they cannot go stale.

A line `<!-- generated: what words -->` in a page is replaced by what the function `what` below
makes of the words.
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
_WANTED = re.compile(r"^<!-- generated: (?P<what>[a-z]+)(?P<words>[^>]*?) *-->$", re.MULTILINE)


def on_config(config: Any) -> Any:
    for source in (str(ROOT / "lab" / "src"), str(ROOT / "src")):
        if source not in sys.path:
            sys.path.insert(0, source)
        config.watch.append(source)
    return config


def on_files(files: Any, config: Any) -> Any:
    """Unpack the pictures of the experiments into the site."""
    from mkdocs.structure.files import File

    for packed in sorted((ROOT / "docs" / "results").glob("*/picture-*.svg.gz")):
        files.remove(files.src_uris[f"results/{packed.parent.name}/{packed.name}"])
        picture = gzip.decompress(packed.read_bytes())
        files.append(File.generated(config, _picture(packed), content=picture))
    return files


def _picture(packed: Path) -> str:
    return f"results/{packed.parent.name}/{packed.stem}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    return _WANTED.sub(lambda match: _MAKERS[match["what"]](*match["words"].split()), markdown)


# --- makers -------------------------------------------------------------------------------------


def policies() -> str:
    """Every policy, what it does and where it comes from."""
    from penstock.policies.base import registry

    known = [registry.describe(name) for name in registry.names()]
    return _table(
        ("policy", "what it does", "from"), [(f"`{p.name}`", p.summary, p.source) for p in known]
    )


def parameters(name: str) -> str:
    """The parameters of a policy with their defaults and, from its docstring, their meaning."""
    from penstock.policies.base import registry

    found = registry.describe(name)
    said = _meanings(found.details, [option.name for option in found.options])
    rows = [
        (f"`{o.name}`", f"`{o.default}`", o.kind, said.get(o.name, "see above"))
        for o in found.options
    ]
    source = f"From: {found.source}.\n\n" if found.source else ""
    return source + (
        _table(("parameter", "default", "takes", "meaning"), rows)
        if rows
        else "It has no parameters."
    )


def vocabulary() -> str:
    """Everything that is measured, level by level."""
    from penstock.metrics.catalog import MetricLevel, metrics_of

    parts = []
    for level in MetricLevel:
        rows = [(f"`{m.name}`", str(m.unit), m.meaning) for m in metrics_of(level)]
        parts.append(
            f"### {level.value.capitalize()}\n\n" + _table(("name", "unit", "meaning"), rows)
        )
    return "\n\n".join(parts)


def guard() -> str:
    """The rules of the guard that have a number, with their defaults."""
    from dataclasses import fields

    from penstock.control.guard import Guard

    rows = [
        (f"`{f.name}`", f"{f.default:g} s")
        for f in fields(Guard)
        if isinstance(f.default, float | int)
    ]
    return _table(("setting", "default"), rows)


def workloads() -> str:
    """The built-in dataflows."""
    from penstock import workloads as known

    found = [known.describe(name) for name in known.names()]
    return _table(
        ("workload", "what it is", "from"),
        [(f"`{w.name}`", w.description, w.source) for w in found],
    )


def graphs() -> str:
    """Every built-in dataflow with its drawing, which pictures.py has made, and its options."""
    from penstock import workloads as known

    return "\n\n".join(_workload(known.describe(name)) for name in known.names())


def _workload(one: Any) -> str:
    said = one.description[0].upper() + one.description[1:]
    options = [(f"`{name}`", "-" if v is None else f"`{v}`") for name, v in one.options.items()]
    return "\n\n".join(
        [
            f"### {one.name}",
            f"{said}. From: {one.source}.",
            f"![The operators of {one.name}](pictures/workload-{one.name}.svg)",
            _table(("option", "default"), options),
        ]
    )


def options(*commands: str) -> str:
    """The arguments and options of commands, all by default, from the commands themselves."""
    from penstock.cli import main

    known = dict(main.commands())
    return "\n\n".join(_command(name, known[name]) for name in commands or known)


def benchmarks() -> str:
    """What `make bench` wrote, one heading deeper and without its own introduction."""
    text = (ROOT / "bench" / "RESULTS.md").read_text()
    return _deeper(text[text.index("\n## ") :])


def experiments() -> str:
    """What `penstock experiment` found, from docs/results: all at a glance, then each."""
    from penstock_lab.experiments import every

    homes = [ROOT / "docs" / "results" / one.name for one in every()]
    homes = [home for home in homes if home.exists()]
    if not homes:
        return "No experiments have been recorded in `docs/results` yet."
    return "\n\n".join([_took(homes), _glance(homes), *(_experiment(home) for home in homes)])


def verdicts() -> str:
    """What the words of the tables of experiments mean."""
    from penstock_lab.experiments.table import BESIDE
    from penstock_lab.experiments.verdict import EFFECT, meanings

    lines = [f"*{word}*: {text}" for word, text in meanings((0.25, 0.1)).items()]
    return "\n".join(f"- {line}" for line in [BESIDE, EFFECT, *lines])


def _took(homes: Sequence[Path]) -> str:
    """How long all experiments took, by engine."""
    found: dict[str, list[float]] = {}
    for home in homes:
        for engine, said in json.loads((home / "manifest.json").read_text())["engines"].items():
            size = ", quick" if "--quick" in said["command"] else ""
            found.setdefault(engine + size, []).append(said.get("seconds", 0))
    quick = ROOT / "docs" / "results" / "quick.json"
    if quick.exists():
        found["simulator, quick"] = [*json.loads(quick.read_text()).values()]
    rows = [(one, str(len(took)), _minutes(sum(took))) for one, took in sorted(found.items())]
    return _table(("engine and size", "experiments", "all together"), rows)


def _minutes(seconds: float) -> str:
    return f"{int(seconds // 3600)} h {seconds % 3600 / 60:04.1f} min"


def _glance(homes: Sequence[Path]) -> str:
    """How many numbers of each experiment agree with its paper's."""
    lines = []
    for home in homes:
        found = json.loads((home / "table.json").read_text())
        engines = json.loads((home / "manifest.json").read_text())["engines"]
        said = [_verdicts(found["rows"], engine) for engine in ("simulator", "spark")]
        said_of = engines.get("simulator", {"command": ""})["command"]
        size = "quick" if "--quick" in said_of else "full"
        name = found["experiment"]
        lines.append((f"[{name}](#{name})", found["title"], *said, size))
    return _table(("experiment", "what", "simulated", "on Spark", "size"), lines)


def _verdicts(rows: Sequence[Mapping[str, Any]], engine: str) -> str:
    found = [row[engine]["verdict"] for row in rows if engine in row and row["said"] != "-"]
    counts = [(word, found.count(word)) for word in dict.fromkeys(sorted(found))]
    return ", ".join(f"{count} {word}" for word, count in counts) or "-"


def _experiment(home: Path) -> str:
    text = "\n".join(
        line
        for line in (home / "table.md").read_text().splitlines()
        if not line.startswith("How to read it: ")  # which the page says once
    )
    title, _, rest = text.partition("\n")
    engines = json.loads((home / "manifest.json").read_text())["engines"]
    made = [
        f"`{said['command']}`: {said.get('seconds', 0):,.0f} s"
        + ("" if said["complete"] else ", not all of its cases")
        for said in engines.values()
    ]
    pictures = [
        f"![{title.lstrip('# ')}, {engine}]({_picture(file)})"
        for engine in engines
        if (file := home / f"picture-{engine}.svg.gz").exists()
    ]
    head = f"### {home.name}\n\n**{title.lstrip('# ')}.** "
    return "\n\n".join([head + rest.strip(), *pictures, "Made by " + "; ".join(made) + "."])


# --- helpers ------------------------------------------------------------------------------------


def _command(name: str, command: Any) -> str:
    """What a command does, an example, and what it takes."""
    context = command.context_class(command, info_name=name)
    about, _, example = (command.help or "").partition("Example: ")
    head = f"### penstock {name}\n\n{' '.join(about.split())}"
    if example:
        head += f"\n\n```sh\n{example.strip()}\n```"
    words = [(f"`{shown}`", meaning) for shown, meaning in _records(command, context)]
    return f"{head}\n\n{_table(('word', 'meaning'), words)}" if words else head


def _records(command: Any, context: Any) -> Iterable[tuple[str, str]]:
    """Each argument and option as the help shows it, without --help and --verbose."""
    for one in command.params:
        if one.expose_value:
            shown, meaning = one.get_help_record(context)
            yield shown, " ".join(meaning.split())


def _meanings(details: str, names: Sequence[str]) -> dict[str, str]:
    """From a docstring like `above: a share; step, most: numbers.` what is said of each name."""
    text = " ".join(details.split())
    known = "|".join(map(re.escape, names))
    pattern = rf"(?:^|(?<=[;.,] ))((?:{known})(?:, (?:{known}))*): "
    parts = re.split(pattern, text) if names else []
    found: dict[str, str] = {}
    for told, meaning in zip(parts[1::2], parts[2::2], strict=True):
        for name in told.split(", "):
            found[name] = meaning.partition(". ")[0].strip().rstrip(",;.")
    return found


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    lines += [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in rows]
    return "\n".join(lines)


def _deeper(text: str) -> str:
    return "\n".join(f"#{line}" if line.startswith("#") else line for line in text.splitlines())


_MAKERS: dict[str, Callable[..., str]] = {
    one.__name__: one
    for one in (
        policies,
        parameters,
        vocabulary,
        guard,
        workloads,
        graphs,
        options,
        benchmarks,
        experiments,
        verdicts,
    )
}
