"""How pages and notebooks look: one sheet, light or dark as the reader has it, and on paper."""

from __future__ import annotations

from functools import cache

from penstock.drawing import charts, svg

LIGHT = (
    "--paper:#ffffff;--ink:#1b2733;--faint:#5a6878;--line:#dfe5ec;--field:#f4f7fa;"
    "--accent:#7a4fc0;--good:#12725e;--warn:#8a5c00;--bad:#b3261e;--t0:#1769aa;--t1:#c7761a;"
    "--t2:#12876f;--t3:#7a4fc0;--t4:#a33b6b;--t5:#6b8fb5"
)
_DARK = (
    "--paper:#14181d;--ink:#e6ebf1;--faint:#9aa8b8;--line:#2b333d;--field:#1a2027;"
    "--accent:#b79af0;--good:#4fc9ab;--warn:#e6b450;--bad:#ff8a80;--t0:#62a8e5;--t1:#e8a04c;"
    "--t2:#4fc9ab;--t3:#b79af0;--t4:#e587b1;--t5:#8fb4dc"
)

_TURNED = "filter:invert(.91) hue-rotate(180deg)"  # a light picture on a dark page

_PARTS = """\
.penstock{color:var(--ink);background:var(--paper);line-height:1.5;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;font-size:14px}
.penstock *{box-sizing:border-box}
.penstock h1{font-size:26px;margin:0 0 2px;overflow-wrap:anywhere}
.penstock h2{font-size:18px;margin:34px 0 8px;padding-top:14px;border-top:1px solid var(--line)}
.penstock h3{font-size:14px;margin:18px 0 6px}
.penstock p{margin:6px 0;max-width:78ch}
.penstock .faint{color:var(--faint)}
.penstock .good{color:var(--good)}.penstock .warn{color:var(--warn)}.penstock .bad{color:var(--bad)}
.penstock .strong{font-weight:600}
.penstock .badge{display:inline-block;border:1px solid currentColor;border-radius:99px;\
padding:0 9px;font-size:12px;font-weight:600;vertical-align:middle}
.penstock .tiles{display:grid;grid-template-columns:repeat(auto-fill,minmax(150px,1fr));\
gap:10px;margin:16px 0}
.penstock .tile{background:var(--field);border:1px solid var(--line);\
border-radius:10px;padding:9px 13px}
.penstock .tile b{display:block;font-size:20px;line-height:1.25}
.penstock .tile span{color:var(--faint);font-size:12px}
.penstock .wide{overflow-x:auto;max-width:100%}
.penstock table{border-collapse:collapse;font-size:13px;margin:6px 0;background:none}
.penstock th{text-align:left;color:var(--faint);font-weight:500;white-space:nowrap;background:none}
.penstock th,.penstock td{padding:4px 14px 4px 0;border-bottom:1px solid var(--line);\
vertical-align:top;text-align:left}
.penstock td{overflow-wrap:break-word;background:none;color:var(--ink)}
.penstock .number{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}
.penstock dl{margin:6px 0}
.penstock dl>div{display:flex;gap:14px;padding:3px 0;border-bottom:1px solid var(--line)}
.penstock dt{flex:0 0 130px;color:var(--faint)}
.penstock dd{margin:0;min-width:0;overflow-wrap:anywhere}
.penstock details{margin:4px 0}.penstock summary{cursor:pointer;color:var(--faint)}
.penstock ul{margin:6px 0;padding-left:20px}
.penstock code{font-size:12.5px;overflow-wrap:anywhere;background:none;color:inherit}
.penstock figure{margin:12px 0;overflow-x:auto}
.penstock figure>svg,.penstock figure>img{min-width:640px}
.penstock img{max-width:100%;height:auto}
.penstock figcaption{color:var(--faint);font-size:12.5px}
.penstock.note{padding:4px 14px 8px;border-radius:8px}
.penstock.note h3{margin:8px 0 4px}
.penstock .dots{letter-spacing:1px;color:var(--faint)}
"""

_PRINT = """\
@media print{
.penstock h2{break-after:avoid}
.penstock figure,.penstock tr,.penstock .tile{break-inside:avoid}
.penstock details:not([open])>*:not(summary){display:none}
.penstock .wide,.penstock figure{overflow:visible}
}
"""


@cache
def sheet() -> str:
    """All rules. On paper it is always light."""
    return "\n".join(
        (
            f".penstock{{{LIGHT}}}",
            f"@media screen and (prefers-color-scheme:dark){{.penstock{{{_DARK}}}}}",
            *(f"{page} .penstock{{{LIGHT}}}" for page in svg.LIGHT),
            *(f"{page} .penstock{{{_DARK}}}" for page in svg.DARK),
            f"@media screen and (prefers-color-scheme:dark){{.penstock img{{{_TURNED}}}}}",
            *(f"{page} .penstock img{{filter:none}}" for page in svg.LIGHT),
            *(f"{page} .penstock img{{{_TURNED}}}" for page in svg.DARK),
            _PARTS,
            charts.STYLE,
            _PRINT,
        )
    )
