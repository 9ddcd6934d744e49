# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Build panels and dashboards the same way everywhere: data source, variables, colours, tables.

Only panel types and options that Grafana 10 has are used. The SDK is a development dependency: nothing that
users run imports this package.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from string import ascii_uppercase
from typing import TypeAlias, TypeVar

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    prometheus,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders import dashboard as build
from grafana_foundation_sdk.models import common as options
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import units
from grafana_foundation_sdk.models.prometheus import PromQueryFormat

from railyard.dashboards.promql import CLUSTER

Panel: TypeAlias = stat.Panel | bargauge.Panel | table.Panel | timeseries.Panel | statetimeline.Panel
_P = TypeVar("_P", stat.Panel, bargauge.Panel, table.Panel, timeseries.Panel, statetimeline.Panel)
#: A board's panels: a title of a row, or a panel.
Content: TypeAlias = Iterable[str | Panel]

SOURCE = model.DataSourceRef(type_val="prometheus", uid="${datasource}")

GREEN, ORANGE, RED, GREY, BLUE = "green", "orange", "red", "text", "blue"
WIDTH = 24


@dataclass(frozen=True)
class Query:
    """A PromQL expression and the name of what it returns; `{{label}}` stands for a label's value."""

    expr: str
    name: str = ""


@dataclass(frozen=True)
class State:
    """What a number means: the text and colour that are shown instead of it."""

    value: int
    text: str
    color: str


RAIL_STATES = (State(0, "good", GREEN), State(1, "errors", ORANGE), State(2, "wrong", RED))
QUICK_STATES = (State(0, "good", GREEN), State(1, "wrong", RED), State(3, "unknown", ORANGE))
RUN_STATES = (State(0, "passed", GREEN), State(1, "failed", RED), State(3, "not all measured", ORANGE))
PRESENT = (State(1, "yes", GREEN), State(0, "no", RED))


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: the title above it.
        source: a label, or the letter of the query whose value it is.
        unit: Grafana's name of the unit.
        states: texts and colours of its values.
        link: where a click leads, with Grafana's variables in it.
        width_px: its width, 0 for what the others leave.
    """

    name: str
    source: str
    unit: str = ""
    states: Sequence[State] = ()
    link: str = ""
    width_px: int = 0


def node_link(variable: str = "${__data.fields.Node}") -> str:
    """Return the address of the Node dashboard for a node."""
    return f"/d/railyard-node?var-cluster=${{cluster}}&var-node={variable}&${{__url_time_range}}"


def single(
    title: str,
    about: str,
    *queries: Query,
    unit: str = units.NoUnit,
    bad_from: float | None = None,
    warn_from: float | None = None,
    states: Sequence[State] = (),
    width: int = 4,
    history: bool = True,
) -> stat.Panel:
    """Build a panel with one large number a query, as it is now."""
    panel = (
        _dressed(stat.Panel(), title, about, width, 4)
        .unit(unit)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .graph_mode(options.BigValueGraphMode.AREA if history else options.BigValueGraphMode.NONE)
        .text_mode(
            options.BigValueTextMode.VALUE_AND_NAME if len(queries) > 1 else options.BigValueTextMode.AUTO
        )
        .thresholds(_thresholds(warn_from, bad_from))
    )
    if states:
        panel = panel.mappings(_mappings(states))
    return _with_queries(panel, *queries, instant=not history)


def worst(
    title: str, about: str, query: Query, *, unit: str = units.NoUnit, width: int = 12, height: int = 8
) -> bargauge.Panel:
    """Build horizontal bars, one a series, of the values now."""
    panel = (
        _dressed(bargauge.Panel(), title, about, width, height)
        .unit(unit)
        .min(0.0)
        .orientation(options.VizOrientation.HORIZONTAL)
        .display_mode(options.BarGaugeDisplayMode.BASIC)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .no_value("none")
        .thresholds(_thresholds(None, None, base=BLUE))
    )
    return _with_queries(panel, query, instant=True)


def lines(
    title: str,
    about: str,
    *queries: Query,
    unit: str = units.Short,
    width: int = 12,
    height: int = 8,
    colors: Mapping[str, str] | None = None,
    stacked: bool = False,
    most: float | None = None,
) -> timeseries.Panel:
    """Build lines over time; the legend has the last and the greatest value."""
    panel = (
        _dressed(timeseries.Panel(), title, about, width, height)
        .unit(unit)
        .line_width(1.0)
        .fill_opacity(30.0 if stacked else 5.0)
        .show_points(options.VisibilityMode.NEVER)
        .axis_soft_min(0.0)
        .legend(
            common.VizLegendOptions()
            .display_mode(options.LegendDisplayMode.TABLE)
            .placement(options.LegendPlacement.BOTTOM)
            .show_legend(True)
            .calcs(["lastNotNull", "max"])
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(options.TooltipDisplayMode.MULTI)
            .sort(options.SortOrder.DESCENDING)
        )
    )
    if stacked:
        panel = panel.stacking(common.StackingConfig().mode(options.StackingMode.NORMAL))
    if most is not None:
        panel = panel.axis_soft_max(most)
    for name, color in (colors or {}).items():
        panel = panel.override_by_name(name, [_property("color", {"mode": "fixed", "fixedColor": color})])
    return _with_queries(panel, *queries)


def timeline(
    title: str, about: str, query: Query, *, states: Sequence[State], height: int = 8
) -> statetimeline.Panel:
    """Build a bar over time for each series, coloured by its state."""
    panel = (
        _dressed(statetimeline.Panel(), title, about, WIDTH, height)
        .mappings(_mappings(states))
        .show_value(options.VisibilityMode.NEVER)
        .row_height(0.8)
    )
    return _with_queries(panel, query)


def rows(
    title: str,
    about: str,
    queries: Sequence[str],
    columns: Sequence[Column],
    *,
    sort: str = "",
    descending: bool = False,
    width: int = WIDTH,
    height: int = 8,
) -> table.Panel:
    """Build a table with a row for each combination of labels, joined over the queries."""
    panel = _table(title, about, queries, width, height)
    if len(queries) > 1:
        panel = panel.with_transformation(_transformation("merge", {}))
    names = {_field(one.source, len(queries)): one.name for one in columns}
    panel = panel.with_transformation(
        _transformation("filterFieldsByName", {"include": {"names": list(names)}})
    ).with_transformation(
        _transformation(
            "organize",
            {
                "excludeByName": {},
                "indexByName": {name: place for place, name in enumerate(names)},
                "renameByName": names,
            },
        )
    )
    for column in columns:
        if properties := _column_properties(column):
            panel = panel.override_by_name(column.name, properties)
    if sort:
        panel = panel.sort_by([common.TableSortByFieldState().display_name(sort).desc(descending)])
    return panel


def matrix(
    title: str, about: str, expr: str, row: str, column: str, *, states: Sequence[State], height: int = 10
) -> table.Panel:
    """Build a table of one value by two labels, each cell coloured by its state."""
    panel = _table(title, about, [expr], WIDTH, height)
    # Rows and columns are in the order in which the series name them: the later sort is the stronger one.
    for label in (row, column):
        panel = panel.with_transformation(_transformation("sortBy", {"sort": [{"field": label}]}))
    return (
        panel.with_transformation(
            _transformation(
                "groupingToMatrix", {"rowField": row, "columnField": column, "valueField": "Value"}
            )
        )
        .mappings(_mappings(states))
        .override_by_field_type("number", _colored_cells())
        .override_by_name(
            f"{row}\\{column}",
            [_property("links", [_link(node_link("${__value.text}"))])] if row == "node" else [],
        )
    )


def board(uid: str, title: str, about: str, content: Content, *, one_node: bool = False, rails: bool = True,
          more: Iterable[build.TextBoxVariable] = (), span: str = "6h") -> build.Dashboard:  # fmt: skip
    """Build a dashboard of rows and panels, with the variables and links that all of them have."""
    made = (
        build.Dashboard(title)
        .uid(uid)
        .description(about)
        .tags(["railyard"])
        .refresh("30s")
        .time(f"now-{span}", "now")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .editable()
        .link(
            build.DashboardLink("Railyard")
            .type(model.DashboardLinkType.DASHBOARDS)
            .tags(["railyard"])
            .as_dropdown(False)
            .include_vars(True)
            .keep_time(True)
        )
        .with_variable(build.DatasourceVariable("datasource").label("Data source").type("prometheus"))
        .with_variable(_variable("cluster", "Cluster", "label_values(railyard_rail_info, cluster)"))
        .with_variable(
            _variable(
                "node",
                "Node",
                f"label_values(railyard_rail_info{{{CLUSTER}}}, node)",
                several=not one_node,
            )
        )
    )
    rail = _variable("rail", "Rail", f"label_values(railyard_rail_info{{{CLUSTER}}}, rail)", several=True)
    # Where no panel has rails the choice is only carried to the next dashboard.
    made = made.with_variable(rail if rails else rail.hide(model.VariableHide.HIDE_VARIABLE))
    for variable in more:
        made = made.with_variable(variable)
    for number, item in enumerate(content, start=1):
        if isinstance(item, str):
            made = made.with_row(build.Row(item).id(number))
        else:
            made = made.with_panel(item.id(number))
    return made


def _variable(name: str, label: str, query: str, *, several: bool = False) -> build.QueryVariable:
    made = (
        build.QueryVariable(name)
        .label(label)
        .query(query)
        .datasource(SOURCE)
        .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(model.VariableSort.ALPHABETICAL_ASC)
    )
    return made.multi(True).include_all(True).all_value(".*") if several else made


def _dressed(panel: _P, title: str, about: str, width: int, height: int) -> _P:
    """Give a panel what each one has."""
    return panel.title(title).description(about).datasource(SOURCE).span(width).height(height)


def _with_queries(panel: _P, *queries: Query, instant: bool = False) -> _P:
    """Give a panel its queries, by the letters by which Grafana knows them."""
    for letter, query in zip(ascii_uppercase, queries, strict=False):
        panel = panel.with_target(_target(letter, query, instant=instant))
    return panel


def _target(letter: str, query: Query, *, instant: bool = False) -> prometheus.Dataquery:
    made = prometheus.Dataquery().ref_id(letter).datasource(SOURCE).expr(query.expr)
    made = made.legend_format(query.name) if query.name else made
    return made.instant() if instant else made.range()


def _table(title: str, about: str, queries: Sequence[str], width: int, height: int) -> table.Panel:
    panel = (
        _dressed(table.Panel(), title, about, width, height)
        .no_value("none")
        .cell_height(options.TableCellHeight.SM)
    )
    for letter, expr in zip(ascii_uppercase, queries, strict=False):
        panel = panel.with_target(_target(letter, Query(expr), instant=True).format(PromQueryFormat.TABLE))
    return panel


def _field(source: str, queries: int) -> str:
    """Return Grafana's name of a column: a label's name, or the value of a query."""
    if len(source) > 1:
        return source
    return "Value" if queries == 1 else f"Value #{source}"


def _column_properties(column: Column) -> list[model.DynamicConfigValue]:
    found: list[model.DynamicConfigValue] = []
    if column.unit:
        found.append(_property("unit", column.unit))
    if column.width_px:
        found.append(_property("custom.width", column.width_px))
    if column.link:
        found.append(_property("links", [_link(column.link)]))
    if column.states:
        found += [_property("mappings", _mappings(column.states)), *_colored_cells()]
    return found


def _colored_cells() -> list[model.DynamicConfigValue]:
    """Return what colours a cell's background by its value, and nothing where no mapping has a colour."""
    return [
        _property("custom.cellOptions", {"type": "color-background", "mode": "basic"}),
        _property("color", {"mode": "thresholds"}),
        _property("thresholds", {"mode": "absolute", "steps": [{"value": None, "color": "transparent"}]}),
    ]


def _link(url: str) -> dict[str, object]:
    return {"title": "Open", "url": url, "targetBlank": False}


def _property(name: str, value: object) -> model.DynamicConfigValue:
    return model.DynamicConfigValue(id_val=name, value=value)


def _transformation(name: str, settings: dict[str, object]) -> model.DataTransformerConfig:
    return model.DataTransformerConfig(id_val=name, options=settings)


def _mappings(states: Sequence[State]) -> list[model.ValueMapping]:
    shown = {
        str(one.value): model.ValueMappingResult(text=one.text, color=one.color, index=place)
        for place, one in enumerate(states)
    }
    return [model.ValueMap(options=shown)]


def _thresholds(warn_from: float | None, bad_from: float | None, base: str = "") -> build.ThresholdsConfig:
    """Return colours by value; without a bound the number is no judgement and has no colour."""
    steps = [model.Threshold(value=None, color=base or (GREY if warn_from is bad_from is None else GREEN))]
    steps += [
        model.Threshold(value=value, color=color)
        for value, color in ((warn_from, ORANGE), (bad_from, RED))
        if value is not None
    ]
    return build.ThresholdsConfig().mode(model.ThresholdsMode.ABSOLUTE).steps(steps)
