"""Pictures of a catalog's trees: SVG with a small layered layout, and Mermaid.

Relations are in layers, parents above children, each below its parents where possible
(barycentres). Tree edges are solid and have their tree's colour; other foreign keys are dashed. A
relation's box lists the join views that end in it, and the aggregate views over its rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from html import escape

from hornbeam_server.schema.catalog import Catalog
from hornbeam_server.schema.graph import topological_order
from hornbeam_server.schema.model import ForeignKey, Schema

COLOURS = (
    "#1f77b4", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22",
)  # fmt: skip
PLAIN = "#8a8f98"
"""Colour of a relation that is the only one of its tree, and of edges outside trees."""

_CHARACTER = 7.4
_LINE = 15
_GAP_X, _GAP_Y, _MARGIN = 36, 74, 24
_SWEEPS = 4
_LEGEND = (
    "solid: tree edge; dashed: other foreign key; in a box: ▤ the views that end there, Σ the "
    "aggregates of its rows"
)
_LEGEND_WIDTH = 660


@dataclass(frozen=True)
class Box:
    """A relation in the picture; `x`, `y` is its upper left corner. All numbers are in pixels."""

    relation: str
    views: tuple[str, ...]
    x: float
    y: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True)
class _Edge:
    child: str
    key: ForeignKey
    in_tree: bool


def forest_svg(catalog: Catalog) -> str:
    """The trees as a self-contained SVG document."""
    boxes = _layout(catalog)
    colours = _colours(catalog)
    width = max([_LEGEND_WIDTH, *(box.x + box.width for box in boxes.values())]) + _MARGIN
    height = max((box.y + box.height for box in boxes.values()), default=0) + _MARGIN + 24
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="sans-serif">',
        f'<rect width="{width:.0f}" height="{height:.0f}" fill="white"/>',
        *_edge_marks(catalog, boxes, colours),
        *(_box_marks(box, colours[box.relation]) for box in boxes.values()),
        f'<text x="{_MARGIN}" y="{height - 14:.0f}" font-size="11" fill="#555">{_LEGEND}</text>',
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def forest_mermaid(catalog: Catalog) -> str:
    """A Mermaid flow chart: solid arrows are tree edges, dotted arrows are other foreign keys."""
    lines = ["flowchart TD"]
    number = {name: f"n{i}" for i, name in enumerate(catalog.schema.names)}
    for name, node in number.items():
        words = [name, *_views(catalog, name)]
        lines.append(f'  {node}["{"<br/>".join(map(_mermaid_text, words))}"]')
    colours = _colours(catalog)
    for edge in _edges(catalog):
        arrow = "-->" if edge.in_tree else "-.->"
        label = _mermaid_text(", ".join(edge.key.columns))
        lines.append(f'  {number[edge.key.parent]} {arrow}|"{label}"| {number[edge.child]}')
    lines += [
        f"  style {node} stroke:{colours[name]},stroke-width:2px" for name, node in number.items()
    ]
    return "\n".join(lines) + "\n"


def _mermaid_text(text: str) -> str:
    return text.replace("&", "#amp;").replace('"', "#quot;").replace("<", "#lt;")


def _edges(catalog: Catalog) -> list[_Edge]:
    return [
        _Edge(relation.name, key, catalog.forest.parent.get(relation.name) == key)
        for relation in catalog.schema.relations
        for key in relation.foreign_keys
    ]


def _views(catalog: Catalog, relation: str) -> tuple[str, ...]:
    """The join views that end in a relation, and the aggregate views over its rows, with marks."""
    joins = (f"▤ {view.name}" for view in catalog.views if view.last == relation)
    return (*joins, *_sums(catalog, relation))


def _sums(catalog: Catalog, relation: str) -> list[str]:
    return [f"Σ {view.name}" for view in catalog.immediate if view.relations[0] == relation]


def _colours(catalog: Catalog) -> dict[str, str]:
    """Relation → colour of its tree, or PLAIN if the tree has no other relation."""
    roots = {name: catalog.forest.root(name) for name in catalog.schema.names}
    grown = [root for root in catalog.schema.names if list(roots.values()).count(root) > 1]
    colour = {root: COLOURS[i % len(COLOURS)] for i, root in enumerate(grown)}
    return {name: colour.get(root, PLAIN) for name, root in roots.items()}


# -- layout


def _layout(catalog: Catalog) -> dict[str, Box]:
    layers = _ordered(_layers(catalog.schema), _edges(catalog))
    rows = [[_sized(catalog, name) for name in layer] for layer in layers]
    widths = [sum(b.width for b in row) + _GAP_X * (len(row) - 1) for row in rows]
    boxes: dict[str, Box] = {}
    y = float(_MARGIN)
    for row, width in zip(rows, widths, strict=True):
        x = _MARGIN + (max(widths) - width) / 2
        for box in row:
            boxes[box.relation] = Box(box.relation, box.views, x, y, box.width, box.height)
            x += box.width + _GAP_X
        y += max(box.height for box in row) + _GAP_Y
    return boxes


def _sized(catalog: Catalog, relation: str) -> Box:
    joins = ("▤ " + " → ".join(v.path) for v in catalog.views if v.last == relation)
    views = (*joins, *_sums(catalog, relation))
    longest = max([len(relation) + 2, *(len(view) * 0.8 for view in views)])
    return Box(relation, views, 0, 0, longest * _CHARACTER + 20, 30 + _LINE * len(views))


def _layers(schema: Schema) -> list[list[str]]:
    """The relations by layer: each is one layer below the lowest of its parents, except
    along foreign keys that close a circle."""
    depth: dict[str, int] = {}
    for name in topological_order(schema):
        above = [fk.parent for fk in schema.relation(name).foreign_keys if fk.parent in depth]
        depth[name] = 1 + max((depth[parent] for parent in above), default=-1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in schema.names:
        layers[depth[name]].append(name)
    return layers


def _ordered(layers: list[list[str]], edges: Iterable[_Edge]) -> list[list[str]]:
    """Order each layer by the mean position of neighbours, in sweeps down and up. Tree edges have
    a greater weight, so that trees stay together."""
    near: dict[str, list[tuple[str, int]]] = {name: [] for layer in layers for name in layer}
    for edge in edges:
        weight = 3 if edge.in_tree else 1
        near[edge.child].append((edge.key.parent, weight))
        near[edge.key.parent].append((edge.child, weight))
    for sweep in range(_SWEEPS):
        place = {
            name: i / max(1, len(layer) - 1) for layer in layers for i, name in enumerate(layer)
        }
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            mean = {name: _mean(near[name], place, place[name]) for name in layer}
            layer.sort(key=lambda name: mean[name])
            place.update((name, i / max(1, len(layer) - 1)) for i, name in enumerate(layer))
    return layers


def _mean(near: Iterable[tuple[str, int]], place: dict[str, float], default: float) -> float:
    pairs = [(place[name], weight) for name, weight in near]
    total = sum(weight for _, weight in pairs)
    return sum(x * weight for x, weight in pairs) / total if total else default


# -- marks


def _box_marks(box: Box, colour: str) -> str:
    lines = [
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}" rx="6" fill="white" stroke="{colour}" stroke-width="2"/>',
        f'<text x="{box.middle:.1f}" y="{box.y + 20:.1f}" font-size="13" font-weight="bold" '
        f'text-anchor="middle">{escape(box.relation)}</text>',
    ]
    for number, view in enumerate(box.views, 1):
        lines.append(
            f'<text x="{box.middle:.1f}" y="{box.y + 20 + _LINE * number:.1f}" font-size="10.5" '
            f'text-anchor="middle" fill="{colour}">{escape(view)}</text>'
        )
    return "\n".join(lines)


def _edge_marks(catalog: Catalog, boxes: dict[str, Box], colours: dict[str, str]) -> Iterator[str]:
    """Curves from the lower side of the parent to the upper side of the child."""
    edges = sorted(_edges(catalog), key=lambda edge: edge.in_tree)  # draw tree edges last, on top
    leaving = _ports(edges, boxes, down=True)
    arriving = _ports(edges, boxes, down=False)
    for edge in edges:
        colour = colours[edge.child] if edge.in_tree else PLAIN
        dash = "" if edge.in_tree else ' stroke-dasharray="5 4"'
        start, end = boxes[edge.key.parent], boxes[edge.child]
        id_ = edge.child, edge.key.name
        if edge.child == edge.key.parent:
            path, tip = _loop(end)
        else:
            path, tip = _curve(leaving[id_], start.y + start.height, arriving[id_], end.y)
        title = f"{edge.child}.{edge.key.name}: {', '.join(edge.key.columns)}"
        yield (
            f'<path d="{path}" fill="none" stroke="{colour}" '
            f'stroke-width="{2.2 if edge.in_tree else 1.2}"{dash}>'
            f"<title>{escape(title)}</title></path>"
            f'<polygon points="{tip}" fill="{colour}"/>'
        )


def _ports(
    edges: Iterable[_Edge], boxes: dict[str, Box], *, down: bool
) -> dict[tuple[str, str], float]:
    """The x of each edge at its box: evenly spaced on the side, in the order of the other ends."""
    sides: dict[str, list[_Edge]] = {}
    for edge in edges:
        sides.setdefault(edge.key.parent if down else edge.child, []).append(edge)
    found: dict[tuple[str, str], float] = {}
    for name, met in sides.items():
        box = boxes[name]
        ordered = sorted(met, key=lambda e: boxes[e.child if down else e.key.parent].middle)
        step = box.width / (len(ordered) + 1)
        for number, edge in enumerate(ordered, 1):
            found[edge.child, edge.key.name] = box.x + step * number
    return found


def _curve(x1: float, y1: float, x2: float, y2: float) -> tuple[str, str]:
    bend = (y2 - y1) / 2
    path = (
        f"M{x1:.1f},{y1:.1f} C{x1:.1f},{y1 + bend:.1f} {x2:.1f},{y2 - bend:.1f} {x2:.1f},{y2:.1f}"
    )
    tip = f"{x2:.1f},{y2:.1f} {x2 - 4:.1f},{y2 - 8:.1f} {x2 + 4:.1f},{y2 - 8:.1f}"
    return path, tip


def _loop(box: Box) -> tuple[str, str]:
    """The path and the tip of a self-reference, at the right side of the box."""
    x, top, low = box.x + box.width, box.y + 8, box.y + 22
    far = x + 26
    path = f"M{x:.1f},{top:.1f} C{far:.1f},{top - 6:.1f} {far:.1f},{low + 6:.1f} {x:.1f},{low:.1f}"
    tip = f"{x:.1f},{low:.1f} {x + 8:.1f},{low - 3:.1f} {x + 6:.1f},{low + 5:.1f}"
    return path, tip
