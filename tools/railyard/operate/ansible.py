"""Starts `ansible-playbook` through ansible-runner, and stops it. The only place that does."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any

from railyard.base import orphans, paths
from railyard.base.progress import Line, Progress

# How long Ansible gets to end by itself after an interrupt, and then after SIGTERM, before it is killed.
_INTERRUPT_GRACE_S = 3.0
_TERMINATE_GRACE_S = 5.0
# The first as in ansible.cfg.
_CALLBACKS = ("railyard.fabric.plain_output", "railyard.fabric.ends_with_caller")
_SILENCE_S = 20.0
# ansible-runner looks at `cancel_callback` this often.
_CANCEL_POLL_S = 0.5


@dataclass
class Outcome:
    """How `ansible-playbook` ended.

    Attributes:
        return_code: Ansible's own; 254 when it had to be killed.
        interrupted: whether the user stopped it.
        progress: the last state: stats, failures, printed lines.
    """

    return_code: int
    interrupted: bool
    progress: Progress


# Instead of 0.01 as in ansible.cfg: nodes emulated on the controller's own machine feel each time it wakes.
_SELDOM = {"ANSIBLE_INTERNAL_POLL_INTERVAL": "0.1"}


@dataclass
class AnsibleRun:
    """One call of `ansible-playbook`, as plain `ansible-playbook` in the same folder would run it.

    Attributes:
        playbook: its absolute path.
        inventories: the values of `-i`.
        argv: further arguments for `ansible-playbook`.
        passwords: regular expression of a prompt → answer; kept in memory.
        stops_asked: how often the user pressed Ctrl-C: once means gently, twice means now.
        show: takes the lines that each event is worth.
        measuring: this run has few steps and mostly waits, so that Ansible may wake up more seldom yet.
        ends_late: whether what a task's time limit left behind (an ssh that hangs) is ended with the run.
    """

    playbook: Path
    inventories: Sequence[str]
    argv: Sequence[str]
    _: KW_ONLY
    stops_asked: Callable[[], int] = lambda: 0
    passwords: Mapping[str, str] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    show: Callable[[list[Line]], None] = lambda lines: None
    measuring: bool = False
    ends_late: bool = False

    def __post_init__(self) -> None:
        self._shown_at = time.monotonic()
        self._signalled_at: float | None = None
        self._terminated_at: float | None = None
        self._mark = orphans.new_mark()

    def run(self) -> Outcome:
        """Run to the end and return how it ended; raises nothing for what Ansible itself says."""
        try:
            return self._run()
        finally:
            # When Ansible had to be killed, its workers know nothing of it yet.
            if self.stops_asked() > 0 or self.ends_late:
                orphans.end(self._mark)

    def _run(self) -> Outcome:
        import ansible_runner

        environment = {**ansible_environment(), orphans.VARIABLE: self._mark}
        with tempfile.TemporaryDirectory(prefix="railyard-") as private:
            settings = Path(private, "env", "settings")
            settings.parent.mkdir()
            # A file, since ansible-runner drops the `settings` argument when there is no such file.
            settings.write_text(json.dumps({"pexpect_timeout": _CANCEL_POLL_S}))
            runner = ansible_runner.run(
                private_data_dir=private,
                # The user's current folder, so that relative paths after `--` work.
                project_dir=os.getcwd(),
                playbook=str(self.playbook),
                # ansible-runner splits this like a shell.
                cmdline=shlex.join(self.argv),
                inventory=[absolute(source) for source in self.inventories],
                envvars={**environment, **(_SELDOM if self.measuring else {})},
                passwords=dict(self.passwords),
                # Else the passwords are written to the private folder.
                suppress_env_files=True,
                fact_cache_type="none",
                quiet=True,
                event_handler=self._on_event,
                cancel_callback=self._on_poll,
            )
        return Outcome(int(runner.rc or 0), self.stops_asked() > 0, self.progress)

    def _on_event(self, event: dict[str, Any]) -> bool:
        # The answer is given already: shown once more, the question would be answered again, in clear text.
        asked = str(event.get("stdout") or "").strip()
        if any(re.search(prompt, asked) for prompt in self.passwords):
            return False
        # Truthy keeps the event on disk, which ansible-runner's own `stats` needs; the others, a file each,
        # would be gigabytes on a large cluster, and what we want of them we have taken here.
        lines = self.progress.feed(event)
        if lines:
            self._shown_at = time.monotonic()
        self.show(lines)
        return event.get("event") == "playbook_on_stats"

    def _on_poll(self) -> bool:
        """Stop Ansible the way that its own Ctrl-C does; True makes ansible-runner kill it."""
        now = time.monotonic()
        if self.stops_asked() < 1:
            # A long step, or nodes that measure and are not to be disturbed: somebody sits and waits.
            if now - self._shown_at > _SILENCE_S:
                self._shown_at = now
                self.show(self.progress.still())
            return False
        if not self.progress.started:
            # No play has begun, so it has touched nothing.
            return True
        if self._signalled_at is None:
            self._signalled_at = now
            self.show([Line("warning", "stopping; once more to stop without cleaning up")])
            self._signal(signal.SIGINT)
        waited_s = now - self._signalled_at
        if self._terminated_at is None and (waited_s > _INTERRUPT_GRACE_S or self.stops_asked() > 1):
            # Ansible's `pause` answers an interrupt with a question. SIGTERM asks none, and unlike a kill it
            # reaches the workers, which are sessions of their own.
            self._terminated_at = now
            self._signal(signal.SIGTERM)
        return self._terminated_at is not None and now - self._terminated_at > _TERMINATE_GRACE_S

    def _signal(self, number: signal.Signals) -> None:
        # None, or one that is gone: it ended by itself in the meantime, which is what we wanted.
        orphans.signal_all(orphans.children(self._mark), number)


def ansible_environment() -> dict[str, str]:
    """Return the variables that make Ansible use this checkout and this interpreter's own Ansible."""
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import trust

    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    return {
        "ANSIBLE_CONFIG": str(paths.repo_root() / "ansible.cfg"),
        # ansible-runner turns host key checking off unless the environment says something.
        "ANSIBLE_HOST_KEY_CHECKING": os.environ.get("ANSIBLE_HOST_KEY_CHECKING", "True"),
        "ANSIBLE_NOCOLOR": "1",
        # Also where the user has callbacks of their own.
        "ANSIBLE_CALLBACKS_ENABLED": ",".join(
            filter(None, (*_CALLBACKS, os.environ.get("ANSIBLE_CALLBACKS_ENABLED")))
        ),
        # The inventory is read once more, by Ansible: it may run no more of it than we do.
        trust.VARIABLE: ",".join(trust.enabled_plugins()),
        "PATH": search,
    }


def absolute(source: str) -> str:
    """Make an inventory path absolute; a host list (`a,b,`) stays as it is."""
    return source if "," in source else str(Path(source).absolute())
