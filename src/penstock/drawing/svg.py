"""Renders sketches as SVG: no scripts, no external references, light or dark."""

from __future__ import annotations

from functools import cache
from html import escape

from penstock.drawing.sketch import TONES, Box, Curve, Dot, Label, Shape, Sketch

LIGHT = ('body[data-jp-theme-light="true"]', ".vscode-light")
DARK = ('body[data-jp-theme-light="false"]', ".vscode-dark")
"""CSS selectors of notebook pages whose theme overrides the system's."""

_FONT = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"


def svg(sketch: Sketch, *, inline: bool = False, light: bool = False) -> str:
    """Render a sketch as an SVG document.

    inline: for use inside an HTML page. light: always light, whatever the reader prefers.
    """
    width, height = _number(sketch.width), _number(sketch.height)
    name = "" if inline else ' xmlns="http://www.w3.org/2000/svg"'
    return "\n".join(
        [
            f'<svg{name} class="penstock-sketch" viewBox="0 0 {width} {height}" width="{width}" '
            f'height="{height}" role="img" aria-label="{escape(clean(sketch.title))}">',
            f"<style>{stylesheet(light)}</style>",
            f'<rect class="page" width="{width}" height="{height}" rx="8"/>',
            *map(_shape, sketch.shapes),
            "</svg>",
        ]
    )


@cache
def stylesheet(light_only: bool = False) -> str:
    """CSS rules with the colours of all roles."""
    light = [_rule(role, tone.fill, tone.line) for role, tone in TONES.items()]
    dark = [_rule(role, tone.dark_fill, tone.dark_line) for role, tone in TONES.items()]
    themed = [f"{page} {rule}" for page in LIGHT for rule in light]
    themed += [f"{page} {rule}" for page in DARK for rule in dark]
    both = ["@media screen and (prefers-color-scheme:dark){", *dark, "}", *themed]
    return "\n".join(
        [
            f".penstock-sketch{{{_FONT};max-width:100%;height:auto}}",
            ".penstock-sketch .bold{font-weight:600}",
            *light,
            *([] if light_only else both),
        ]
    )


def clean(text: str) -> str:
    """Text valid in XML: disallowed characters are replaced by U+FFFD."""
    return "".join(c if c in "\t\n" or (ord(c) >= 32 and _allowed(c)) else "\ufffd" for c in text)


def _allowed(character: str) -> bool:
    point = ord(character)
    return not (0x7F <= point <= 0x9F or 0xD800 <= point <= 0xDFFF or point in (0xFFFE, 0xFFFF))


def _rule(role: str, fill: str | None, line: str | None) -> str:
    return f".penstock-sketch .{role}{{fill:{fill or 'none'};stroke:{line or 'none'}}}"


def _shape(shape: Shape) -> str:
    match shape:
        case Box():
            size = _attributes(x=shape.x, y=shape.y, width=shape.width, height=shape.height)
            return _tag("rect", shape.role, f'{size} rx="{_number(shape.radius)}"', shape.hint)
        case Dot():
            size = _attributes(cx=shape.x, cy=shape.y, r=shape.radius)
            return _tag("circle", shape.role, size, shape.hint)
        case Curve():
            return _curve(shape)
        case Label():
            return _label(shape)


def _label(label: Label) -> str:
    bold = " bold" if label.bold else ""
    place = _attributes(x=label.x, y=label.y)
    if label.angle:
        x, y = _number(label.x), _number(label.y)
        place += f' transform="rotate({_number(-label.angle)} {x} {y})"'
    return (
        f'<text class="{label.role}{bold}" {place} font-size="{_number(label.size)}" '
        f'text-anchor="{label.anchor}">{escape(clean(label.text))}</text>'
    )


def _curve(curve: Curve) -> str:
    path = [f"M{_points(curve.start)}"]
    path += [("L" if len(step) == 2 else "C") + _points(step) for step in curve.steps]
    look = f'd="{"".join(path)}" style="fill:none" stroke-width="{_number(curve.width)}"'
    if curve.dash:
        look += f' stroke-dasharray="{_points(curve.dash)}"'
    else:
        look += ' stroke-linecap="round" stroke-linejoin="round"'
    if curve.opacity < 1:
        look += f' opacity="{curve.opacity:g}"'
    drawn = _tag("path", curve.role, look, curve.hint)
    if not curve.arrow:
        return drawn
    x, y = curve.steps[-1][-2:]
    half = 3.0 + curve.width / 2
    corners = ((x - half, y - half), (x + half, y), (x - half, y + half))
    return f'{drawn}<path class="head" d="M{"L".join(map(_points, corners))}Z"/>'


def _tag(name: str, role: str, attributes: str, hint: str) -> str:
    start = f'<{name} class="{role}" {attributes}'
    return f"{start}><title>{escape(clean(hint))}</title></{name}>" if hint else f"{start}/>"


def _attributes(**values: float) -> str:
    return " ".join(f'{name}="{_number(value)}"' for name, value in values.items())


def _points(values: tuple[float, ...]) -> str:
    return " ".join(map(_number, values))


def _number(value: float) -> str:
    return f"{value:.1f}".rstrip("0").rstrip(".")
