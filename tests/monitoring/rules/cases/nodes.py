"""Situations of nodes and of runs."""

from __future__ import annotations

from .series import CLUSTER, NODE, TARGET, Case, Series, alert, answers, fires, one, quiet

FILE = "/var/lib/prometheus/node-exporter/railyard_node.prom"
#: The two times of a node are compared by its labels; what is left is the textfile's own series.
STALE = {**TARGET, "file": FILE}
PROVEN = {**CLUSTER, **NODE}


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


def ended(values: str) -> Series:
    return run("end_timestamp_seconds", values)


def proven(values: str) -> Series:
    return one("railyard_node_proven_timestamp_seconds", values, target=CLUSTER, node="gpu001")


def limit(name: str, value: str) -> Series:
    """Return a threshold that the site changed."""
    return {"series": f"railyard:threshold:{name}", "values": value}


#: A process of another job on a node: it says nothing of node_exporter.
OTHER = one("up", "1x400", target={**TARGET, "job": "mysqld"})
SUCCESS = [
    one("node_textfile_scrape_error", "0x60"),
    one("node_scrape_collector_success", "1x60", collector="netclass"),
]

NODES: list[Case] = [
    *alert(
        "GovernorWrong",
        "8m",
        TARGET,
        "c1: gpu001: 96 CPUs do not run the expected governor",
        fires("96 CPUs", governor("96x60")),
        quiet("none", governor("0x60")),
        quiet("an epilog's two minutes", governor("96x8 0x60"), at="4m"),
    ),
    *alert(
        "NodeMetricsGone",
        "3m",
        TARGET,
        "c1: gpu001: node_exporter does not answer, so nothing is known of its rails",
        fires("no answer", up("1x2 0x20")),
        quiet("an answer", *answers(20)),
        quiet("one scrape without an answer", up("1x2 0x1 1x20"), *answers(20)[1:]),
        quiet("another job", one("up", "0x20", target={**TARGET, "job": "mysqld"})),
        quiet("the node left the targets: no alert for ever", up("1x2 0x9 stale"), at="4m"),
    ),
    *alert(
        "NodeMetricsStale",
        "6m",
        STALE,
        "c1: gpu001: Railyard's metrics are {} old",
        fires("the writer stopped", clock("0+15x60"), written("0x60"), text="6m 0s"),
        fires(
            "a node_exporter that reports the file's name alone",
            clock("0+15x60"),
            written("0x60", "railyard_node.prom"),
            text="6m 0s",
            labels={"file": "railyard_node.prom"},
        ),
        fires(
            "the writer stopped, and the clock is an hour ahead",
            clock("3600+15x60"),
            written("3600x60"),
            text="6m 0s",
        ),
        fires(
            "the clock was put back by an hour, and nothing was written since",
            clock("-3600+15x60"),
            written("0x60"),
            text="54m 0s",
        ),
        quiet("written each minute", clock("0+15x60"), written("0x4 60x4 120x4 180x4 240x4 300x4")),
        quiet("the node's clock is an hour behind", clock("-3600+15x60"), written("-3600+15x60")),
        quiet("the node's clock is an hour ahead", clock("3600+15x60"), written("3600+15x60")),
        quiet(
            "another program's file",
            clock("0+15x60"),
            written("0x60", "/var/lib/prometheus/node-exporter/apt.prom"),
        ),
        quiet(
            "the site writes each ten minutes",
            clock("0+15x60"),
            written("0x60"),
            limit("metrics_age_seconds", "3000x60"),
        ),
    ),
    *alert(
        "NodeMetricsMissing",
        "8m",
        TARGET,
        "c1: gpu001: node_exporter answers, but has no metrics of Railyard",
        fires("no writer", *answers(60)[:2]),
        quiet("a writer", *answers(60)),
        quiet("the node came a minute ago", *answers(60)[:2], at="4m"),
        quiet("another job answers", OTHER),
    ),
    *alert(
        "CollectorFailed",
        "4m",
        {**TARGET, "collector": "netclass"},
        "c1: gpu001: collector {} of node_exporter fails or is off",
        fires(
            "a textfile that is no metrics",
            one("node_textfile_scrape_error", "1x60"),
            text="textfile",
            labels={"collector": "textfile"},
        ),
        fires(
            "netclass failed",
            one("node_scrape_collector_success", "0x60", collector="netclass"),
            text="netclass",
        ),
        fires("netclass is off", answers(60)[0], answers(60)[2], text="netclass"),
        quiet(
            "hwmon is not there on a virtual machine",
            *SUCCESS,
            one("node_scrape_collector_success", "0x60", collector="hwmon"),
        ),
    ),
    *alert(
        "QuickCheckWrong",
        "2m",
        TARGET,
        "c1: gpu001: the quick check found something wrong",
        fires("wrong", quick("1x20")),
        quiet("good", quick("0x20")),
        quiet("unknown is not wrong", quick("3x20")),
    ),
    *alert(
        "QuickCheckUnknown",
        "40m",
        TARGET,
        "c1: gpu001: the quick check could not look at something for half an hour",
        fires("unknown for 40 minutes", quick("3x60")),
        quiet("unknown for five minutes", quick("3x5 0x60")),
        step="1m",
    ),
    *alert(
        "QuickCheckOld",
        "25m",
        TARGET,
        "c1: gpu001: no quick check for {}",
        fires("25 minutes", clock("0+60x60"), looked("0x60"), text="25m 0s"),
        fires(
            "the clock was put back by an hour, and no look came since",
            clock("-3600+60x60"),
            looked("0x60"),
            text="35m 0s",
        ),
        quiet("each five minutes", clock("0+60x60"), looked("0x4 300x4 600x4 900x4 1200x4 1500x4")),
        quiet("the node's clock is an hour behind", clock("-3600+60x60"), looked("-3600+60x60")),
        quiet(
            "the site looks each half hour",
            clock("0+60x60"),
            looked("0x60"),
            limit("quick_check_age_seconds", "7200x60"),
        ),
        step="1m",
    ),
]

FAILED = "c1: the last validation failed"
INCOMPLETE = "c1: the last validation did not measure all planned tests"
PASSED = [run("exit_status", "0x10"), run("complete", "1x10")]

RUNS: list[Case] = [
    *alert(
        "ValidationFailed",
        "3m",
        CLUSTER,
        FAILED,
        fires("failed", run("exit_status", "1x10"), run("complete", "1x10")),
        quiet("passed", *PASSED),
        step="1m",
    ),
    *alert(
        "ValidationIncomplete",
        "3m",
        CLUSTER,
        INCOMPLETE,
        fires("something is unmeasured", run("exit_status", "3x10")),
        quiet("passed", *PASSED),
        step="1m",
    ),
    Case(
        "ValidationIncomplete",
        "failed and incomplete",
        [run("exit_status", "1x10"), run("complete", "0x10")],
        "3m",
        {"ValidationFailed": [(CLUSTER, FAILED)], "ValidationIncomplete": [(CLUSTER, INCOMPLETE)]},
        "1m",
    ),
    *alert(
        "ValidationTooOld",
        "200h",
        CLUSTER,
        "c1: last validated 8d 8h 0m 0s ago",
        fires("200 hours", ended("0x240")),
        quiet("validated again", ended("0x100 360000x140")),
        quiet("this clock is an hour ahead of the controller's", ended("-3600x240"), at="190h"),
        quiet("the site validates monthly", ended("0x240"), limit("validation_age_seconds", "2764800x240")),
        step="1h",
    ),
    *alert(
        "NodeNotProven",
        "380h",
        PROVEN,
        "c1: gpu001: no good active test for 15d 20h 0m 0s",
        fires("380 hours", proven("0x400"), up("1x400")),
        quiet("300 hours", proven("0x400"), up("1x400"), at="300h"),
        quiet("the node left the targets: no alert for ever", proven("0x400"), up("1x370 stale")),
        quiet("another job answers", proven("0x400"), OTHER),
        quiet(
            "the site validates monthly",
            proven("0x400"),
            up("1x400"),
            limit("node_proven_age_seconds", "2764800x400"),
        ),
        step="1h",
    ),
]

CASES = [*NODES, *RUNS]
