# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Receivers of alerts: forms, and secrets that must not be in the inventory."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import Vaulted
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import alertmanager, receivers

WEBHOOK = {"url": "http://192.0.2.9:5001/alerts"}
MAIL = {"to": "ops@example.org", "from": "railyard@example.org", "smarthost": "mail.example.org:587"}
SLACK = {"channel": "#gpu", "api_url_file": "/root/slack"}


@pytest.mark.parametrize(
    "receiver",
    [
        {"name": "ops", "webhook": WEBHOOK, "severities": ["critical", "info"]},
        {"name": "ops", "mail": MAIL, "slack": SLACK},
        {"name": "ops", "mail": {**MAIL, "username": "me", "password": Vaulted()}},
        {"name": "ops", "mail": {**MAIL, "username": "me", "password": "{{ mail_password }}"}},
        {"name": "ops", "mail": {**MAIL, "require_tls": False}},
        {"name": "ops", "slack": {"channel": "#gpu", "api_url": Vaulted()}},
    ],
)
def test_a_good_receiver_is_taken(receiver):
    assert list(receivers.check([receiver])) == []


HOOK = "https://hooks.slack.example/services/T0/B0/secret"


@pytest.mark.parametrize(
    ("receiver", "variable", "message"),
    [
        ({"name": "ops", "slack": {"channel": "#gpu", "api_url": HOOK}}, "[0].slack.api_url", "plain text"),
        (
            {"name": "ops", "mail": {**MAIL, "username": "me", "password": "hunter2"}},
            "[0].mail.password",
            "plain text",
        ),
        (
            {"name": "ops", "webhook": {**WEBHOOK, "bearer_token": "t0ken"}},
            "[0].webhook.bearer_token",
            "plain text",
        ),
        ({"name": "ops", "webhook": {"url": "http://me:pw@192.0.2.9/"}}, "[0].webhook.url", "no address"),
        ({"name": "ops", "webhook": {"url": "ftp://192.0.2.9/"}}, "[0].webhook.url", "no address"),
        ({"name": "ops", "webhook": {}}, "[0].webhook.url", "missing"),
        ({"name": "ops", "slack": {"channel": "#gpu"}}, "[0].slack", "missing"),
        ({"name": "ops", "slack": {**SLACK, "api_url": Vaulted()}}, "[0].slack.api_url", "as well"),
        ({"name": "ops", "slack": {**SLACK, "api_url_file": "slack"}}, "[0].slack.api_url_file", "absolute"),
        ({"name": "ops", "mail": {**MAIL, "smarthost": "mail"}}, "[0].mail.smarthost", "port"),
        ({"name": "ops", "mail": {**MAIL, "username": "me"}}, "[0].mail", "belong together"),
        ({"name": "ops", "mial": MAIL}, "[0].mial", "not known"),
        ({"name": "ops"}, "[0]", "no way to be reached"),
        ({"name": "../x", "webhook": WEBHOOK}, "[0].name", "no name"),
        ({"name": "nobody", "webhook": WEBHOOK}, "[0].name", "no name"),
        ({"name": "ops", "webhook": WEBHOOK, "severities": ["page"]}, "[0].severities", "'page'"),
        ("ops", "[0]", "not a mapping"),
    ],
)
def test_a_wrong_receiver_is_named_and_no_secret_is_shown(receiver, variable, message):
    found = list(receivers.check([receiver]))
    assert (f"monitoring_receivers{variable}", True) in [
        (one.variable, message in one.message) for one in found
    ]
    text = " ".join(one.message + one.fix for one in found)
    assert not [secret for secret in ("hunter2", "t0ken", "B0", "me:pw") if secret in text]
    assert all(one.fix for one in found)


def test_two_receivers_of_one_name_are_refused():
    twice = [{"name": "ops", "webhook": WEBHOOK}] * 2
    assert [one.variable for one in receivers.check(twice)] == ["monitoring_receivers[1].name"]


def test_what_is_no_list_is_refused():
    assert [one.message for one in receivers.check({"ops": WEBHOOK})] == [
        "it is {'ops': {'url': 'http://192.0.2.9:5001/alerts'}}, not a list"
    ]


def test_secrets_of_the_inventory_go_into_files_and_others_stay_where_they_are():
    given = [
        {"name": "hook", "webhook": {**WEBHOOK, "bearer_token": "t0ken"}, "severities": ["critical"]},
        {"name": "post", "mail": {**MAIL, "username": "me", "password_file": "/root/mail"}},
        {"name": "chat", "slack": {"channel": "#gpu", "api_url": HOOK}},
    ]
    document, secrets = alertmanager.configuration(given, [{"equal": ["node"]}])
    folder = "/etc/prometheus/railyard/secrets"
    assert secrets == {f"{folder}/hook.webhook": "t0ken", f"{folder}/chat.slack": HOOK}
    _nobody, hook, post, chat = document["receivers"]
    assert hook["webhook_configs"][0]["http_config"] == {
        "authorization": {"credentials_file": f"{folder}/hook.webhook"}
    }
    assert post["email_configs"][0]["auth_password_file"] == "/root/mail"
    assert chat["slack_configs"][0]["api_url_file"] == f"{folder}/chat.slack"
    assert "t0ken" not in str(document)
    assert HOOK not in str(document)
    # Every receiver is tried, no matter which got the alert before it.
    routes = [(one["receiver"], one.get("matchers"), one["continue"]) for one in document["route"]["routes"]]
    assert routes == [
        ("hook", ['severity=~"critical"'], True), ("post", None, True), ("chat", None, True),
    ]  # fmt: skip
    assert document["inhibit_rules"] == [{"equal": ["node"]}]


def test_without_receivers_no_alert_is_sent():
    document, secrets = alertmanager.configuration([], [])
    assert document["route"]["receiver"] == "nobody"
    assert (document["receivers"], secrets) == ([{"name": "nobody"}], {})
