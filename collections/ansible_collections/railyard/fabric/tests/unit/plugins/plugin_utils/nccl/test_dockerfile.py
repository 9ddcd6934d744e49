# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Test what is read out of Dockerfiles."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import env_file
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.lint import lint


def settings(text):
    return [(one.line, one.name, one.value) for one in env_file.read(text, "Dockerfile").settings]


def unread(text):
    return [one.name for one in env_file.read(text, "Dockerfile").unread if not one.harmless]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("Dockerfile", ""),
        ("a/nccl.Dockerfile", ""),
        ("Dockerfile.cuda", ""),
        ("Containerfile", ""),
        ("-", "# syntax=docker/dockerfile:1\n\nARG V=1\nFROM a:$V\nENV A=1\n"),
    ],
)
def test_it_is_known_by_its_name_or_its_beginning(name, text):
    assert env_file.form_of(text, name) == env_file.DOCKER


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ENV NCCL_A=1 NCCL_B=2", [(2, "NCCL_A", "1"), (2, "NCCL_B", "2")]),
        ("ENV NCCL_A=1 \\\n  # why\n  NCCL_B=2 \\\n\n  NCCL_C=3\nENV NCCL_D=4",
         [(2, "NCCL_A", "1"), (4, "NCCL_B", "2"), (6, "NCCL_C", "3"), (7, "NCCL_D", "4")]),
        ("ENV NCCL_A one two", [(2, "NCCL_A", "one two")]),
        ("env NCCL_A=\"one two\" NCCL_B='$x' NCCL_C=a\\ b",
         [(2, "NCCL_A", "one two"), (2, "NCCL_B", "$x"), (2, "NCCL_C", "a b")]),
        # What a shell would take apart.
        ("ENV NCCL_A=^lo;docker NCCL_B=(x)&|<> NCCL_C=a#b",
         [(2, "NCCL_A", "^lo;docker"), (2, "NCCL_B", "(x)&|<>"), (2, "NCCL_C", "a#b")]),
        ("ARG V=1\nENV NCCL_A=$V NCCL_B=${V}x NCCL_C=${W:-7}",
         [(3, "NCCL_A", "1"), (3, "NCCL_B", "1x"), (3, "NCCL_C", "7")]),
        ("ARG V\nENV NCCL_A=$V", [(3, "NCCL_A", None)]),
        ("ENV NCCL_A=1\nENV NCCL_A=2", [(3, "NCCL_A", "2")]),
        ("ENV NCCL_A=1 \\\r\n  NCCL_B=2\r\n", [(2, "NCCL_A", "1"), (3, "NCCL_B", "2")]),
        ('CMD ["mpirun", "-x", "NCCL_A=1", "x"]', [(2, "NCCL_A", "1")]),
        ("ENTRYPOINT NCCL_A=1 x", [(2, "NCCL_A", "1")]),
        ("RUN echo 'NCCL_A=1' >> /etc/nccl.conf", [(2, "NCCL_A", "1")]),
        ("RUN x && \\\n    # why\n    echo NCCL_A=1 > /etc/nccl.conf", [(4, "NCCL_A", "1")]),
        ("RUN --mount=type=cache,target=/x NCCL_A=1 x", [(2, "NCCL_A", "1")]),
        ("RUN <<EOF\nx\nNCCL_A=1 x\nEOF\nENV NCCL_B=2", [(4, "NCCL_A", "1"), (6, "NCCL_B", "2")]),
        ("RUN cat <<EOF > /etc/nccl.conf\nNCCL_A=1\nEOF\nENV NCCL_B=2",
         [(3, "NCCL_A", "1"), (5, "NCCL_B", "2")]),
        ("COPY <<EOF /etc/nccl.conf\nNCCL_A=1\nEOF\n", [(3, "NCCL_A", "1")]),
        ("ONBUILD ENV NCCL_A=1", [(2, "NCCL_A", "1")]),
        ("FROM x AS b\nENV NCCL_A=1\nFROM b\nENV NCCL_B=2", [(3, "NCCL_A", "1"), (5, "NCCL_B", "2")]),
        ("RUN export NCCL_A=1", []),
        ("LABEL x='NCCL_A=1'", []),
    ],
)  # fmt: skip
def test_instructions(text, expected):
    text = f"FROM a\n{text}"
    assert settings(text) == expected
    assert unread(text) == []


def test_a_stage_has_what_its_base_sets_and_no_more():
    text = "FROM x AS b\nENV NCCL_NET=IB\nFROM y\nENV NCCL_IB_DISABLE=1\nFROM b\nENV NCCL_IB_TC=1\n"
    found = env_file.read(text, "Dockerfile")
    seen = [sorted(one.variants()[0]) for one in found.environments]
    assert seen == [["NCCL_NET"], ["NCCL_IB_DISABLE"], ["NCCL_IB_TC", "NCCL_NET"]]


def test_another_escape():
    assert settings("# escape=`\nFROM a\nENV NCCL_A=1 `\n  NCCL_B=2") == [
        (3, "NCCL_A", "1"),
        (4, "NCCL_B", "2"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        'RUN python -c \'import os; os.environ["NCCL_DEBUG"]="1"\'',
        "RUN <<EOF python\nNCCL_DEBUG=1 x\nEOF",
        "HEALTHCHECK CMD NCCL_DEBUG=1 x",
        "NCCL_DEBUG=1",
    ],
)
def test_what_is_not_read(text):
    assert unread(f"FROM a\n{text}") == ["NCCL_DEBUG"]


def test_names_of_builds_are_no_errors():
    text = "FROM a\nARG NCCL_VERSION=1\nENV NCCL_VERSION=$NCCL_VERSION NCCL_HOME=/x NV_LIBNCCL_PACKAGE=x\n"
    assert lint(env_file.read(text, "Dockerfile")) == []
