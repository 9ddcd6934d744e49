# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The README of `railyard monitoring export`: lines that a site adds, and commands that check them."""

from __future__ import annotations

from collections.abc import Sequence

SCRAPE_COMMENT = """\
# Made by Railyard: `railyard monitoring export`. README.md in this folder says where to install it.
# There is no TLS and no password here. Where exporters need them, add tls_config and basic_auth to the jobs.
"""

_HEAD = """\
# Railyard's monitoring for {cluster}

Made by `railyard monitoring export` from the inventory. Export again when nodes come or go; then
only the files change.

## 1. Copy the folder to the host of Prometheus

```
sudo mkdir -p {at}
sudo cp -r . {at}/
```

Prometheus reads the files below `{at}` and needs no other rights. The files in `file_sd/` are read
again without a reload.
"""

_RULES = """
## 2. Add the rules

Add to `/etc/prometheus/prometheus.yml`:

```yaml
rule_files:
  - {at}/rules/*.yml
```

`promtool check rules {at}/rules/*.yml` checks them. Prometheus older than 2.42 does not know
`keep_firing_for`: remove these lines there.
"""

_OPERATOR = """
## 2. Add the rules

```
kubectl apply --server-side -n monitoring -f rules/
```

The operator takes the objects that its `ruleSelector` selects: add the labels that yours asks for,
such as `kubectl label -n monitoring prometheusrule --all release=kube-prometheus-stack`. It checks
each rule when it is applied.
"""

_JOBS = """
## 3. Add the scrape jobs

Copy the {count} jobs of `scrape.yml` into the list `scrape_configs` of
`/etc/prometheus/prometheus.yml`. Prometheus 2.43 and newer can read the file where it is, with one
line at the top level:

```yaml
scrape_config_files:
  - {at}/scrape.yml
```

Each target has the labels `cluster`, `node` and, where the inventory has it, `scalable_unit`. The
rules join on them.
"""

_OWN_JOB = """
## 3. Add the labels to your job of node_exporter

The rules read your job `{job}`, so `scrape.yml` has no job for node_exporter: no node is scraped
twice. The rules join series by the labels `cluster` and `node`. Give your job the targets of this
folder, which have both:

```yaml
    file_sd_configs:
      - files: [{at}/file_sd/railyard_nodes.json]
```

Or keep your targets and add the labels there. Where the host name in `instance` is the node's name:

```yaml
    relabel_configs:
      - {{source_labels: [__address__], regex: "([^:]+):.*", target_label: node}}
      - {{target_label: cluster, replacement: {cluster}}}
```

The node's metrics come from node_exporter's textfile collector: role `node_metrics` writes
`railyard_node.prom` into the folder that your node_exporter reads.

Copy the {count} jobs of `scrape.yml` into the list `scrape_configs` of
`/etc/prometheus/prometheus.yml`.
"""

_REST = """
`railyard-runs` scrapes what the controller writes after each run, `railyard_runs.prom`. Put it into
the textfile folder of a node_exporter that Prometheus reaches, and name that one in
`file_sd/railyard_runs.json`:

```json
[{{"targets": ["192.168.0.9:9100"], "labels": {{}}}}]
```

Its series name cluster and node themselves, so the job has `honor_labels: true`.

## 4. Check, then reload

```
promtool check config /etc/prometheus/prometheus.yml
sudo systemctl reload prometheus
```

Then look: `promtool query instant http://127.0.0.1:9090 'count(up{{cluster="{cluster}"}}) by (job)'`

## 5. Alertmanager

Add the entries of `alertmanager-inhibit.yml` to the list `inhibit_rules` of `alertmanager.yml`, so
that a node that is gone is one message. Group by alert and cluster, so that a dead leaf switch is
one message with its rails:

```yaml
route:
  group_by: [alertname, cluster]
```

```
amtool check-config /etc/prometheus/alertmanager.yml
sudo systemctl reload prometheus-alertmanager
```
"""

_DASHBOARDS = """
## 6. Grafana

In Grafana choose *Dashboards, New, Import* and upload each file of `dashboards/`, or copy them
where a provider of yours looks. Each asks for its data source by the variable `datasource`.
"""

_FILES = """
## Files

{files}
"""


def text(cluster: str, at: str, form: str, job: str | None, count: int, files: Sequence[str]) -> str:
    """Return the README.

    Args:
        cluster: the cluster's name, label `cluster` of all series.
        at: where the folder is on the host of Prometheus.
        form: `rules`, or `prometheusrule` for the operator.
        job: the site's own job of node_exporter; None: Railyard's.
        count: how many jobs scrape.yml has.
        files: paths of all files.
    """
    parts = [_HEAD, _OPERATOR if form == "prometheusrule" else _RULES]
    parts += [_JOBS if job is None else _OWN_JOB, _REST]
    if any(file.startswith("dashboards/") for file in files):
        parts.append(_DASHBOARDS)
    parts.append(_FILES)
    listed = "\n".join(f"- `{file}`" for file in files)
    return "".join(part.format(cluster=cluster, at=at, job=job, count=count, files=listed) for part in parts)
