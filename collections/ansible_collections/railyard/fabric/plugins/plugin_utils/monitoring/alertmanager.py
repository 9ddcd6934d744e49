# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""alertmanager.yml: which receivers get which alerts, with every secret in a separate file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

#: Where the role writes secrets that the inventory holds encrypted.
SECRETS = "/etc/prometheus/railyard/secrets"
#: Kinds of receivers -> key of a secret -> key of Alertmanager's own file option.
SECRET_KEYS = {"webhook": "bearer_token", "mail": "password", "slack": "api_url"}
KINDS = tuple(SECRET_KEYS)
#: A leaf that is down is one message with its rails, sent this long after the first of them.
GROUP_WAIT, GROUP_INTERVAL, REPEAT = "30s", "1m", "12h"
#: Sends nothing; what is at the root of the routes must exist.
NOBODY = "nobody"

Item = Mapping[str, Any]


class Configuration(NamedTuple):
    """alertmanager.yml as data, and the secrets that it names: path -> content."""

    document: dict[str, Any]
    secrets: dict[str, str]


def configuration(receivers: Sequence[Item], inhibit_rules: Sequence[Item]) -> Configuration:
    """Return Alertmanager's configuration for checked receivers (`checks.check_receivers`)."""
    secrets: dict[str, str] = {}
    made = [{"name": NOBODY}, *(_receiver(one, secrets) for one in receivers)]
    routes = [_route(one) for one in receivers]
    document = {
        "route": {
            "receiver": NOBODY,
            "group_by": ["alertname", "cluster"],
            "group_wait": GROUP_WAIT,
            "group_interval": GROUP_INTERVAL,
            "repeat_interval": REPEAT,
            **({"routes": routes} if routes else {}),
        },
        "receivers": made,
        "inhibit_rules": [dict(one) for one in inhibit_rules],
    }
    return Configuration(document, secrets)


def _route(receiver: Item) -> dict[str, Any]:
    severities = receiver.get("severities") or []
    matchers = {"matchers": [f'severity=~"{"|".join(severities)}"']} if severities else {}
    # The next receiver is tried as well.
    return {"receiver": receiver["name"], **matchers, "continue": True}


def _receiver(receiver: Item, secrets: dict[str, str]) -> dict[str, Any]:
    made: dict[str, Any] = {"name": receiver["name"]}
    for kind in KINDS:
        if kind in receiver:
            item = dict(receiver[kind])
            secret = _secret_file(receiver["name"], kind, item, secrets)
            made[f"{'email' if kind == 'mail' else kind}_configs"] = [_WRITERS[kind](item, secret)]
    return made


def _secret_file(name: str, kind: str, item: dict[str, Any], secrets: dict[str, str]) -> str | None:
    """Return the file with a receiver's secret; one that the inventory holds is written by the role."""
    key = SECRET_KEYS[kind]
    file, value = item.pop(f"{key}_file", None), item.pop(key, None)
    if file is not None or value is None:
        return None if file is None else str(file)
    path = f"{SECRETS}/{name}.{kind}"
    secrets[path] = str(value)
    return path


def _webhook(item: dict[str, Any], secret: str | None) -> dict[str, Any]:
    access = {"http_config": {"authorization": {"credentials_file": secret}}} if secret else {}
    return {"send_resolved": True, "url": item["url"], **access}


def _mail(item: dict[str, Any], secret: str | None) -> dict[str, Any]:
    access = {"auth_username": item["username"], "auth_password_file": secret} if secret else {}
    tls = {} if item.get("require_tls", True) else {"require_tls": False}
    addresses = {"to": item["to"], "from": item["from"], "smarthost": item["smarthost"]}
    return {"send_resolved": True, **addresses, **access, **tls}


def _slack(item: dict[str, Any], secret: str | None) -> dict[str, Any]:
    # Alertmanager's own text names neither node nor rail.
    text = "{{ range .Alerts }}{{ .Annotations.summary }}\n{{ end }}"
    return {"send_resolved": True, "api_url_file": secret, "channel": item["channel"], "text": text}


_WRITERS = {"webhook": _webhook, "mail": _mail, "slack": _slack}
