"""Situations of nodes and of runs."""

from __future__ import annotations

from .series import CLUSTER, NODE, TARGET, Case, Series, answers, fires, one, quiet

FILE = "/var/lib/prometheus/node-exporter/railyard_node.prom"
#: The two times of a node are compared by its labels; what is left is the textfile's own series.
STALE = {**TARGET, "file": FILE}
PROVEN = {**CLUSTER, **NODE}
COLLECTOR = "c1: gpu001: collector {} of node_exporter fails or is off"
WRONG = "c1: gpu001: the quick check found something wrong"
OLD_QUICK = "c1: gpu001: no quick check for {}"


def clock(values: str) -> Series:
    return one("node_time_seconds", values)


def written(values: str, file: str = FILE) -> Series:
    return one("node_textfile_mtime_seconds", values, file=file)


def quick(values: str) -> Series:
    return one("railyard_quick_status", values)


def looked(values: str) -> Series:
    return one("railyard_quick_timestamp_seconds", values)


def governor(values: str) -> Series:
    return one("railyard_cpus_with_wrong_governor", values)


def up(values: str) -> Series:
    return one("up", values)


def run(name: str, values: str) -> Series:
    return one(f"railyard_run_{name}", values, target=CLUSTER)


def proven(values: str) -> Series:
    return one("railyard_node_proven_timestamp_seconds", values, target=CLUSTER, node="gpu001")


SUCCESS = [
    one("node_textfile_scrape_error", "0x60"),
    one("node_scrape_collector_success", "1x60", collector="netclass"),
]

NODES: list[Case] = [
    fires(
        "GovernorWrong",
        "96 CPUs",
        [governor("96x60")],
        "8m",
        TARGET,
        "c1: gpu001: 96 CPUs do not run the expected governor",
    ),
    quiet("GovernorWrong", "none", [governor("0x60")], "8m"),
    quiet("GovernorWrong", "an epilog's two minutes", [governor("96x8 0x60")], "4m"),
    fires(
        "NodeMetricsGone",
        "no answer",
        [up("1x2 0x20")],
        "3m",
        TARGET,
        "c1: gpu001: node_exporter does not answer, so nothing is known of its rails",
    ),
    quiet("NodeMetricsGone", "an answer", [*answers(20)], "3m"),
    quiet("NodeMetricsGone", "one scrape without an answer", [up("1x2 0x1 1x20"), *answers(20)[1:]], "3m"),
    quiet("NodeMetricsGone", "another job", [one("up", "0x20", target={**TARGET, "job": "mysqld"})], "3m"),
    quiet("NodeMetricsGone", "the node left the targets: no alert for ever", [up("1x2 0x9 stale")], "4m"),
    fires(
        "NodeMetricsStale",
        "the writer stopped",
        [clock("0+15x60"), written("0x60")],
        "6m",
        STALE,
        "c1: gpu001: Railyard's metrics are 6m 0s old",
    ),
    fires(
        "NodeMetricsStale",
        "a node_exporter that reports the file's name alone",
        [clock("0+15x60"), written("0x60", "railyard_node.prom")],
        "6m",
        {**STALE, "file": "railyard_node.prom"},
        "c1: gpu001: Railyard's metrics are 6m 0s old",
    ),
    fires(
        "NodeMetricsStale",
        "the writer stopped, and the clock is an hour ahead",
        [clock("3600+15x60"), written("3600x60")],
        "6m",
        STALE,
        "c1: gpu001: Railyard's metrics are 6m 0s old",
    ),
    quiet(
        "NodeMetricsStale",
        "written each minute",
        [clock("0+15x60"), written("0x4 60x4 120x4 180x4 240x4 300x4")],
        "6m",
    ),
    quiet(
        "NodeMetricsStale",
        "the node's clock is an hour behind",
        [clock("-3600+15x60"), written("-3600+15x60")],
        "6m",
    ),
    quiet(
        "NodeMetricsStale",
        "the node's clock is an hour ahead",
        [clock("3600+15x60"), written("3600+15x60")],
        "6m",
    ),
    quiet(
        "NodeMetricsStale",
        "another program's file",
        [clock("0+15x60"), written("0x60", "/var/lib/prometheus/node-exporter/apt.prom")],
        "6m",
    ),
    quiet(
        "NodeMetricsStale",
        "the site writes each ten minutes",
        [
            clock("0+15x60"),
            written("0x60"),
            {"series": "railyard:threshold:metrics_age_seconds", "values": "3000x60"},
        ],
        "6m",
    ),
    fires(
        "NodeMetricsMissing",
        "no writer",
        answers(60)[:2],
        "8m",
        TARGET,
        "c1: gpu001: node_exporter answers, but has no metrics of Railyard",
    ),
    quiet("NodeMetricsMissing", "a writer", answers(60), "8m"),
    quiet("NodeMetricsMissing", "the node came a minute ago", answers(60)[:2], "4m"),
    fires(
        "CollectorFailed",
        "a textfile that is no metrics",
        [one("node_textfile_scrape_error", "1x60")],
        "4m",
        {**TARGET, "collector": "textfile"},
        COLLECTOR.format("textfile"),
    ),
    fires(
        "CollectorFailed",
        "netclass failed",
        [one("node_scrape_collector_success", "0x60", collector="netclass")],
        "4m",
        {**TARGET, "collector": "netclass"},
        COLLECTOR.format("netclass"),
    ),
    fires(
        "CollectorFailed",
        "netclass is off",
        [answers(60)[0], answers(60)[2]],
        "4m",
        {**TARGET, "collector": "netclass"},
        COLLECTOR.format("netclass"),
    ),
    quiet(
        "CollectorFailed",
        "hwmon is not there on a virtual machine",
        [*SUCCESS, one("node_scrape_collector_success", "0x60", collector="hwmon")],
        "4m",
    ),
    fires("QuickCheckWrong", "wrong", [quick("1x20")], "2m", TARGET, WRONG),
    quiet("QuickCheckWrong", "good", [quick("0x20")], "2m"),
    quiet("QuickCheckWrong", "unknown is not wrong", [quick("3x20")], "2m"),
    fires(
        "QuickCheckUnknown",
        "unknown for 40 minutes",
        [quick("3x60")],
        "40m",
        TARGET,
        "c1: gpu001: the quick check could not look at something for half an hour",
        "1m",
    ),
    quiet("QuickCheckUnknown", "unknown for five minutes", [quick("3x5 0x60")], "40m", "1m"),
    fires(
        "QuickCheckOld",
        "25 minutes",
        [clock("0+60x60"), looked("0x60")],
        "25m",
        TARGET,
        OLD_QUICK.format("25m 0s"),
        "1m",
    ),
    quiet(
        "QuickCheckOld",
        "each five minutes",
        [clock("0+60x60"), looked("0x4 300x4 600x4 900x4 1200x4 1500x4")],
        "25m",
        "1m",
    ),
    quiet(
        "QuickCheckOld",
        "the node's clock is an hour behind",
        [clock("-3600+60x60"), looked("-3600+60x60")],
        "25m",
        "1m",
    ),
    fires(
        "QuickCheckOld",
        "the clock was put back by an hour, and no look came since",
        [clock("-3600+60x60"), looked("0x60")],
        "25m",
        TARGET,
        OLD_QUICK.format("35m 0s"),
        "1m",
    ),
]

FAILED = "c1: the last validation failed"
INCOMPLETE = "c1: the last validation did not measure all planned tests"

RUNS: list[Case] = [
    fires(
        "ValidationFailed",
        "failed",
        [run("exit_status", "1x10"), run("complete", "1x10")],
        "3m",
        CLUSTER,
        FAILED,
        "1m",
    ),
    quiet("ValidationFailed", "passed", [run("exit_status", "0x10"), run("complete", "1x10")], "3m", "1m"),
    fires(
        "ValidationIncomplete",
        "something is unmeasured",
        [run("exit_status", "3x10")],
        "3m",
        CLUSTER,
        INCOMPLETE,
        "1m",
    ),
    Case(
        "ValidationIncomplete",
        "failed and incomplete",
        [run("exit_status", "1x10"), run("complete", "0x10")],
        "3m",
        {"ValidationFailed": [(CLUSTER, FAILED)], "ValidationIncomplete": [(CLUSTER, INCOMPLETE)]},
        "1m",
    ),
    quiet(
        "ValidationIncomplete", "passed", [run("exit_status", "0x10"), run("complete", "1x10")], "3m", "1m"
    ),
    fires(
        "ValidationTooOld",
        "200 hours",
        [run("end_timestamp_seconds", "0x240")],
        "200h",
        CLUSTER,
        "c1: last validated 8d 8h 0m 0s ago",
        "1h",
    ),
    quiet(
        "ValidationTooOld",
        "validated again",
        [run("end_timestamp_seconds", "0x100 360000x140")],
        "200h",
        "1h",
    ),
    quiet(
        "ValidationTooOld",
        "this clock is an hour ahead of the controller's",
        [run("end_timestamp_seconds", "-3600x240")],
        "190h",
        "1h",
    ),
    fires(
        "NodeNotProven",
        "380 hours",
        [proven("0x400"), up("1x400")],
        "380h",
        PROVEN,
        "c1: gpu001: no good active test for 15d 20h 0m 0s",
        "1h",
    ),
    quiet("NodeNotProven", "300 hours", [proven("0x400"), up("1x400")], "300h", "1h"),
    quiet(
        "NodeNotProven",
        "the node left the targets: no alert for ever",
        [proven("0x400"), up("1x370 stale")],
        "380h",
        "1h",
    ),
]

#: A process of another job on a node: it says nothing of node_exporter.
OTHER = one("up", "1x400", target={**TARGET, "job": "mysqld"})


def limit(name: str, value: str) -> Series:
    """Return a threshold that the site changed."""
    return {"series": f"railyard:threshold:{name}", "values": value}


OF_THE_SITE: list[Case] = [
    fires(
        "NodeMetricsStale",
        "the clock was put back by an hour, and nothing was written since",
        [clock("-3600+15x60"), written("0x60")],
        "6m",
        STALE,
        "c1: gpu001: Railyard's metrics are 54m 0s old",
    ),
    quiet("NodeMetricsMissing", "another job answers", [OTHER], "8m"),
    quiet("NodeNotProven", "another job answers", [proven("0x400"), OTHER], "380h", "1h"),
    quiet(
        "QuickCheckOld",
        "the site looks each half hour",
        [clock("0+60x60"), looked("0x60"), limit("quick_check_age_seconds", "7200x60")],
        "25m",
        "1m",
    ),
    quiet(
        "ValidationTooOld",
        "the site validates monthly",
        [run("end_timestamp_seconds", "0x240"), limit("validation_age_seconds", "2764800x240")],
        "200h",
        "1h",
    ),
    quiet(
        "NodeNotProven",
        "the site validates monthly",
        [proven("0x400"), up("1x400"), limit("node_proven_age_seconds", "2764800x400")],
        "380h",
        "1h",
    ),
]

CASES = [*NODES, *RUNS, *OF_THE_SITE]
