"""What Ansible's events mean: the state of a run, and the lines a person should see. Draws nothing itself."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean, clean_line, quoted

# Its failure is how a bad run ends; its message is printed from the run folder.
_JUDGE = "fabric_judge"
_WATCH = "fabric_watch"
_TELLING = (_WATCH, "fabric_srun")
# What it tells, `launch/waiting.py`: of the first host, since each has a like share of the rounds.
_MEASURING = re.compile(
    r"measuring: ([0-9]{1,10}) of ([0-9]{1,10}) tests done"
    r"(?:(?:, [0-9]{1,10} of [0-9]{1,10} (?:rounds|pairs)){2})?"
    r"(?:, about ([0-9]{1,6}) (min|s) left)?(?:, (.+))?$"
)
_WHY_SELDOM = "; reports are rare, because each one disturbs the test that is running"
_SO_FAR = "suspect so far: "
# Steps of Ansible itself, many times the same: not worth a line each.
_QUIET = ("include_tasks", "meta", "set_fact", "validate_argument_spec")
_OUTPUT_LINES_SHOWN = 20
# Less than this is not worth a number.
_SOON_S = 5.0

_Data = Mapping[str, Any]


@dataclass
class Failure:
    """A task that failed on a host, or a host that could not be reached."""

    host: str
    task: str
    action: str
    message: str
    kind: str
    """`failed`, `unreachable` or `ignored`."""
    measuring: bool = False
    """Whether the run folder existed already: the run's result is then that of the judge."""
    judged: bool = False
    """Whether the task came to an exit status, rather than break down."""

    @property
    def of_preflight(self) -> bool:
        """Whether the input was refused before any node was touched."""
        return self.action == "preflight"

    @property
    def of_judgement(self) -> bool:
        """Whether this is the judgement speaking rather than something that went wrong on the way."""
        return self.judged and self.action == _JUDGE


@dataclass
class Line:
    """A line for a person; `style`: play, task, note, warning, failed, unreachable, ignored, diff or raw."""

    style: str
    text: str


@dataclass
class Progress:
    """The state of one `ansible-playbook`, fed by ansible-runner's events."""

    verbosity: int = 0
    said: str = ""
    """What was printed already, and is in the playbook's output as well."""
    play: str = ""
    task: str = ""
    action: str = ""
    hosts: dict[str, str] = field(default_factory=dict)
    """Host → what it is doing in the current task: running, ok, changed, skipped, failed, unreachable."""
    totals: Counter[str] = field(default_factory=Counter)
    tests_done: int = 0
    tests_total: int = 0
    current_test: str = ""
    failures: list[Failure] = field(default_factory=list)
    stats: dict[str, dict[str, int]] | None = None
    started: bool = False
    measuring: bool = False
    judgement: str = ""
    """The digest of the judgement that `fabric_judge` keeps."""
    messages: list[str] = field(default_factory=list)
    """What Ansible wrote outside of any task: warnings, and why it did not start."""
    clock: Callable[[], float] = time.monotonic
    _printed: set[str] = field(default_factory=set)
    _task_began_s: float = 0.0
    _looked_s: float = 0.0
    _left_s: int | None = None
    _explained: bool = False

    def feed(self, event: _Data) -> list[Line]:
        """Take one event and return the lines that it is worth."""
        data = event.get("event_data")
        data = data if isinstance(data, Mapping) else {}
        handler = getattr(self, "_on_" + str(event.get("event", "")), None)
        lines: list[Line] = list(handler(event, data) or ()) if handler else []
        if self.verbosity and event.get("stdout") and event.get("event") != "verbose":
            return [Line("raw", quoted(str(event["stdout"]).strip("\r\n")))]
        return lines

    def still(self) -> list[Line]:
        """Return a line to print after a while without output."""
        if self.tests_total and self.tests_done < self.tests_total:
            return [Line("note", self._still_measuring())]
        running = sum(state == "running" for state in self.hosts.values())
        if not self.task or not running:
            return []
        elapsed = _duration(self.clock() - self._task_began_s)
        hosts = "1 host" if len(self.hosts) == 1 else f"{len(self.hosts)} hosts"
        return [Line("note", f"still running ({elapsed}): {self.task}, {running} of {hosts}")]

    def _still_measuring(self) -> str:
        # A look takes something from what is measured: the next one comes when it should be done.
        ago_s = self.clock() - self._looked_s
        if self._left_s is None:
            left = "time left not known yet"
        elif self._left_s - ago_s >= _SOON_S:
            left = f"about {_duration(self._left_s - ago_s)} left"
        else:
            left = "the next report is due now"
        why = "" if self._explained else _WHY_SELDOM
        self._explained = True
        return (
            f"measuring: {self.tests_done} of {self.tests_total} tests done at last report"
            f" ({_duration(ago_s)} ago), {left}{why}"
        )

    def failed_hosts(self) -> list[str]:
        """Hosts that failed before measuring began, and that nothing rescued."""
        later = Counter(one.host for one in self.failures if one.measuring and one.kind == "failed")
        failures = (self.stats or {}).get("failures") or {}
        return sorted(host for host, count in failures.items() if count > later[host])

    def failures_while_measuring(self) -> list[Failure]:
        """Failures after the run folder was made, what the judgement says apart."""
        return [
            failure
            for failure in self.failures
            if failure.measuring and failure.kind == "failed" and not failure.of_judgement
        ]

    def unreachable_hosts(self) -> list[str]:
        """Hosts that did not answer and were not allowed to."""
        return sorted((self.stats or {}).get("dark") or {})

    def _on_playbook_on_start(self, _event: _Data, _data: _Data) -> None:
        self.started = True

    def _on_playbook_on_play_start(self, _event: _Data, data: _Data) -> Iterator[Line]:
        yield from self._end_task()
        self._printed.clear()
        self.play = clean_line(str(data.get("name") or data.get("play") or "")).strip()
        yield Line("play", self.play)

    def _on_playbook_on_task_start(self, _event: _Data, data: _Data) -> Iterator[Line]:
        yield from self._end_task()
        self.task = clean_line(str(data.get("name") or data.get("task") or "")).strip()
        self.action = action_of(data)
        self._task_began_s = self.clock()

    _on_playbook_on_handler_task_start = _on_playbook_on_task_start

    def _on_runner_on_start(self, _event: _Data, data: _Data) -> None:
        self.hosts[_host(data)] = "running"

    def _on_runner_on_ok(self, _event: _Data, data: _Data) -> Iterator[Line]:
        result = _result(data)
        self._settle(_host(data), "changed" if result.get("changed") else "ok")
        yield from self._warnings(_host(data), result)
        self._judged(data)
        if action_of(data) == "fabric_open":
            self.measuring = True

    def _on_runner_on_skipped(self, _event: _Data, data: _Data) -> None:
        self._settle(_host(data), "skipped")

    def _on_runner_on_failed(self, _event: _Data, data: _Data) -> Iterator[Line]:
        yield from self._failure("ignored" if data.get("ignore_errors") else "failed", data)

    def _on_runner_on_unreachable(self, _event: _Data, data: _Data) -> Iterator[Line]:
        yield from self._failure("unreachable", data)

    def _on_runner_item_on_failed(self, _event: _Data, data: _Data) -> Iterator[Line]:
        result = _result(data)
        item = clean_line(str(result.get("_ansible_item_label", result.get("item", ""))))
        yield Line("failed", _where(data) + f" [{item}]\n" + quoted(message_of(result)))

    def _on_runner_on_file_diff(self, event: _Data, _data: _Data) -> Iterator[Line]:
        text = clean(str(event.get("stdout") or "")).strip("\n")
        if text:
            yield Line("diff", quoted(text))

    _on_runner_on_diff = _on_runner_on_file_diff

    def _on_verbose(self, event: _Data, _data: _Data) -> Iterator[Line]:
        text = clean(str(event.get("stdout") or "")).rstrip()
        # The judge's lines come from the run folder, later.
        if self.action in _TELLING and (found := _MEASURING.match(text)):
            self.tests_done, self.tests_total = int(found[1]), int(found[2])
            self._looked_s = self.clock()
            self._left_s = int(found[3]) * (60 if found[4] == "min" else 1) if found[3] else None
            self.current_test = found[5] or ""
            yield Line("note", text)
        elif self.action in _TELLING and text.startswith(_SO_FAR):
            yield Line("warning", text)
        elif text and self.action == "fabric_confirm":
            yield Line("note", _quoted_below(text))
        elif text and text != self.said and self.action not in (*_QUIET, _JUDGE):
            self.messages.append(text)
            yield Line("warning", _quoted_below(text))

    _on_warning = _on_system_warning = _on_deprecated = _on_error = _on_verbose

    def _on_playbook_on_stats(self, _event: _Data, data: _Data) -> Iterator[Line]:
        yield from self._end_task()
        kinds = ("ok", "changed", "dark", "failures", "skipped", "rescued", "ignored")
        counts = {kind: data.get(kind) for kind in kinds}
        self.stats = {kind: dict(of) if isinstance(of, Mapping) else {} for kind, of in counts.items()}

    def _judged(self, data: _Data) -> None:
        if action_of(data) == _JUDGE:
            self.judgement = str(_result(data).get("judgement") or "")

    def _settle(self, host: str, state: str) -> None:
        self.hosts[host] = state
        self.totals[state] += 1

    def _end_task(self) -> Iterator[Line]:
        """The task before this one is over: say in one line how it went."""
        if self.task and self.hosts and self.action not in (*_QUIET, _WATCH):
            counts = Counter(self.hosts.values())
            text = f"{self.task}: " + ", ".join(f"{state} {counts[state]}" for state in sorted(counts))
            # A step of a loop comes again and again, a skipped one says nothing.
            if text not in self._printed and set(counts) != {"skipped"}:
                self._printed.add(text)
                yield Line("task", text)
        self.hosts = {}
        self.task = ""

    def _warnings(self, host: str, result: _Data) -> Iterator[Line]:
        """Say what a result warns of, which Ansible shows with the result and not as an event of its own."""
        warnings = result.get("warnings")
        for warning in warnings if isinstance(warnings, list) else ():
            text = clean(str(warning)).strip()
            # The same warning of a thousand hosts is printed once, with the first host.
            if text and text not in self._printed:
                self._printed.add(text)
                yield Line("warning", _quoted_below(text if host in text else f"{host}: {text}"))

    def _failure(self, kind: str, data: _Data) -> Iterator[Line]:
        result = _result(data)
        failure = Failure(
            host=_host(data),
            task=clean_line(str(data.get("task") or self.task)),
            action=action_of(data),
            message=message_of(result),
            kind=kind,
            measuring=self.measuring,
            judged="exit_status" in result,
        )
        self._settle(failure.host, kind)
        self._judged(data)
        self.failures.append(failure)
        yield from self._warnings(failure.host, result)
        if not failure.of_judgement:
            yield Line(kind, _where(data) + "\n" + quoted(failure.message))


def _duration(seconds: float) -> str:
    """Return a duration as a person reads it: seconds up to a minute and a half, then minutes."""
    return f"{seconds:.0f} s" if seconds < 90 else f"{round(seconds / 60)} min"


def message_of(result: _Data) -> str:
    """What a failed result says, as lines: its message, then the end of what the program wrote."""
    if result.get("censored"):
        return _text(result["censored"])
    parts = [_text(result.get("msg")) or _text(result.get("reason"))]
    for key in ("stderr", "module_stderr", "stdout", "module_stdout"):
        text = _text(result.get(key))
        if text and text not in parts[0]:
            lines = text.splitlines()
            left_out = len(lines) - _OUTPUT_LINES_SHOWN
            shown = [f"(… {left_out} lines more above)"] if left_out > 0 else []
            parts.append("\n".join([f"{key}:", *shown, *lines[-_OUTPUT_LINES_SHOWN:]]))
            break
    return "\n".join(part for part in parts if part) or "failed without a message; -v after `--` shows more"


def _text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        value = "\n".join(str(item) for item in value)
    return clean(str(value)).strip() if value else ""


def _where(data: _Data) -> str:
    return clean_line(f"{_host(data)}: {data.get('task') or 'task'}")


def _quoted_below(text: str) -> str:
    """Return a text whose lines after the first are marked with a bar."""
    first, newline, rest = text.partition("\n")
    return first + newline + (quoted(rest) if rest else "")


def action_of(data: _Data) -> str:
    """Return the name of a task's module, without the collection's name."""
    return (
        str(data.get("task_action") or "").removeprefix("ansible.builtin.").removeprefix("railyard.fabric.")
    )


def _host(data: _Data) -> str:
    return clean_line(str(data.get("host") or "?"))


def _result(data: _Data) -> _Data:
    result = data.get("res")
    return result if isinstance(result, Mapping) else {}
