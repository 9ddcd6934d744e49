"""Where a command line or a text names somebody: a host, a user, a domain, a secret.

Texts are those of Ansible, OpenSSH, sudo, PAM, NCCL and the tools. What they call a host is a name, whether
or not the inventory knows it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from railyard.bundle import tokens

#: JSON key -> what its text names.
KEYS = {
    "cluster": "cluster",
    **dict.fromkeys(("node", "peer"), "node"),
    **dict.fromkeys(("host", "hostname", "ansible_host"), "host"),
    **dict.fromkeys(("leaf", "switch", "chassis"), "switch"),
    **dict.fromkeys(("user", "username", "remote_user", "become_user", "ansible_user"), "user"),
}
#: Kinds whose names a person gave, which may be anything.
SITE = ("cluster", "node", "host", "switch", "user")
#: Says nothing of whose it is.
NOBODY = {"root", "ubuntu", "debian", "admin", "nobody", "localhost", "controller"}
NOBODY |= {"none", "null", "true", "false", "unknown", "version", "kernel", "hostname"}
NOBODY |= {"sender", "receiver", "stream", "streams", "sum", "intervals", "example", "lan", "internal"}
NOBODY |= {"getaddrinfo", "ssh", "sudo", "ping", "all"}

_HOST = r"[a-z0-9][\w.-]*"
_USER = r"[a-z_][\w.-]*"
# `\[` is how ssh begins a host with a port that is not 22.
_SSH_HOST = rf"'?\[?(?P<host>{_HOST})"
_VARIABLES = r"ansible_(?:ssh_|become_)?user|remote_user|become_user"
# Texts that say what a word is: the name of a group is its kind. Before each pattern are strings that a
# text contains, in lower case, if it can match: most texts contain no names.
_SENTENCES: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), rf"\"(?P<key>{'|'.join(KEYS)})\"\s*:\s*\"(?P<name>[^\"\\]{{1,253}})\""),
    (("linux ",), rf"\bLinux (?P<host>{_HOST}) \d+\.\d+"),
    ((" nccl ",), rf"^(?P<host>{_HOST}):\d+:\d+ \[\d+\] NCCL "),
    (("pid",), rf"\bPid\s+\d+ on\s+(?P<host>{_HOST})"),
    (
        ("hostname", "nodename", "nodelist", "rhost="),
        rf"(?:\b(?:host|node)name\s*[:=]\s*|\brhost=|nodelist\s*[:=]\s*)(?P<host>{_HOST})",
    ),
    (("/home/", "/users/"), rf"/(?:home|Users)/(?P<user>{_HOST})"),
    (("user", "login"), rf"\b(?:{_VARIABLES}|--user|login)[\"',:=\s]+(?P<user>{_HOST})"),
    (("user=", "username=", "logname="), rf"(?:user(?:name)?|\blogname)=[\"']?(?P<user>{_USER})"),
    (("uid=", "gid="), rf"\b[ug]id=\d+\((?P<user>{_USER})\)"),
    (
        ("@",),
        r"(?<![\w.+-])(?P<user>[\w.+-]+)@(?P<host>[a-z0-9-]+(?:\.[a-z0-9-]+)*\.(?!service|socket)[a-z]{2,})",
    ),
    # OpenSSH, its client and its server; a host without a domain is one only in their sentences.
    (
        ("@",),
        rf"(?:\b(?:ssh|scp|sftp|rsync)\s(?:.{{0,80}}\s)?|\b(?:to|for|from|ssh:)\s)"
        rf"(?P<user>{_USER})@(?P<host>{_HOST})",
    ),
    (
        (": permission denied", "'s password"),
        rf"(?P<user>{_USER})@(?P<host>{_HOST})(?=: permission denied|'s password)",
    ),
    (("could not resolve",), rf"could not resolve host(?:name)?:? {_SSH_HOST}"),
    (
        ("connect to ", "connecting to ", "connection to "),
        rf"\bconnect(?:ing|ion)? to (?:host )?{_SSH_HOST}"
        r"(?=\]?:? (?:port \d|\[|closed|timed|refused|failed))",
    ),
    (("connection closed", "connection reset"), rf"connection (?:closed|reset) by {_SSH_HOST} port \d"),
    (
        ("authenticating user", "invalid user"),
        rf"\b(?:authenticating|invalid) user (?P<user>{_USER})(?: (?P<host>{_HOST}) port \d)?",
    ),
    (("authenticating to",), rf"authenticating to {_SSH_HOST}:\d+ as '(?P<user>{_USER})"),
    (
        ("accepted ", "failed "),
        rf"(?:accepted|failed) [a-z/-]+ for (?:invalid user )?(?P<user>{_USER}) from (?P<host>{_HOST})",
    ),
    (
        ("permanently added", "authenticity of", "host key"),
        rf"(?:permanently added|authenticity of host|host key for|host key is known for) {_SSH_HOST}",
    ),
    (
        ("name or service not known", "failure in name resolution"),
        rf"(?:^|[\s'\"(])(?P<host>{_HOST}): "
        r"(?:name or service not known|temporary failure in name resolution)",
    ),
    (("can't find", "unknown host"), rf"(?:server can't find|unknown host:?) (?P<host>{_HOST})"),
    # sudo, su and PAM.
    (("unable to resolve",), rf"unable to resolve host:? (?P<host>{_HOST})"),
    (("password for",), rf"password for (?P<user>{_USER})"),
    (("in the sudoers",), rf"(?P<user>{_USER}) is not in the sudoers"),
    (
        ("not allowed", "may not run", "does not exist", "not in sudoers"),
        rf"\buser (?P<user>{_USER}) (?:is not allowed|may not run|does not exist|not in sudoers)",
    ),
    (
        ("not allowed to", "may not run"),
        rf"(?:not allowed to (?:run|execute)|may not run).{{1,300}}? on (?P<host>{_HOST})",
    ),
    (("sudo:",), rf"\bsudo:\s+(?P<user>{_USER}) : "),
    (("session ",), rf"session (?:opened|closed) for user (?P<user>{_USER})"),
    (("(uid=",), rf"\bby (?P<user>{_USER})\(uid="),
    # Ansible.
    ((": [",), rf"\b(?:fatal|ok|changed|unreachable|failed|skipping): \[(?P<host>{_HOST})"),
    # What is no name but tells one thing from another.
    ((), rf"{tokens.BEGIN}(?P<UUID>[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}})(?![0-9a-z])"),
    (
        (),
        r"(?:serial(?:[ _-]?(?:number|num|no))?|\bs/?n)[\"']?\s*[:=]\s*[\"']?(?P<serial>[0-9a-z][\w./-]{3,})",
    ),
    (
        ("passw", "secret", "token", "api"),
        r"(?:password|passwd|secret|token|api[_-]?key)[\"']?\s*[:=]\s*[\"']?(?P<secret>[^\s\"',;\\]{4,})",
    ),
    (
        ("sha256:", "aaaa"),
        r"\b(?:SHA256:|(?:ssh-\w+|ecdsa-\S+)\s+(?=AAAA))(?P<secret>[a-z0-9+/=]{43,})",
    ),
    (("md5:",), r"\bMD5:(?P<secret>[0-9a-f]{2}(?::[0-9a-f]{2}){15})"),
)
_PATTERNS = [(needles, re.compile(pattern, re.I | re.M)) for needles, pattern in _SENTENCES]


def in_text(text: str) -> Iterator[tuple[str, str]]:
    """Yield kind and name of what a text names."""
    small = text.lower()
    for needles, pattern in _PATTERNS:
        if needles and not any(one in small for one in needles):
            continue
        for found in pattern.finditer(text):
            named = found.groupdict()
            if key := named.pop("key", None):
                yield KEYS[key.lower()], named["name"]
            else:
                yield from ((kind, name) for kind, name in named.items() if name)


# Options of ansible-playbook, by what their value names.
_USERS = ("-u", "--user", "--become-user", "--ssh-user")
_HOSTS = ("-l", "--limit")
_FILES = ("--private-key", "--key-file", "--vault-password-file", "--vault-pass-file")
_VALUES = (
    "-e",
    "--extra-vars",
    "--ssh-common-args",
    "--ssh-extra-args",
    "--scp-extra-args",
    "--sftp-extra-args",
)
_IN_VALUES = [
    re.compile(pattern, re.I)
    for pattern in (
        rf"\b(?:{_VARIABLES})[\"']?\s*[=:]\s*[\"']?(?P<user>{_HOST})",
        rf"\bansible_(?:ssh_)?host[\"']?\s*[=:]\s*[\"']?(?P<host>{_HOST})",
        rf"\bUser[= ](?P<user>{_HOST})",
        rf"(?:^|\s)-l\s*(?P<user>{_HOST})",
        rf"(?P<user>{_USER})@(?P<host>{_HOST})",
        rf"(?:\bProxyJump[= ]|(?:^|\s)-J\s*)(?:{_USER}@)?(?P<host>{_HOST})",
    )
]


def in_argv(argv: Sequence[object]) -> Iterator[tuple[str, str]]:
    """Yield kind and name of what a command line of Ansible names."""
    words = [one for one in argv if isinstance(one, str)]
    for word, after in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        if word[:2] in ("-u", "-l", "-e") and len(word) > 2:
            option, value = word[:2], word[2:]
        elif not equals:
            value = after
        if option in _USERS:
            yield "user", value
        elif option in _HOSTS:
            yield from (("host", one.strip("!&~ ")) for one in value.split(",") if not one.startswith("@"))
        elif option in _FILES:
            yield "folder", value
        elif option in _VALUES and not value.startswith("@"):
            for pattern in _IN_VALUES:
                for found in pattern.finditer(value):
                    yield from ((kind, name) for kind, name in found.groupdict().items() if name)
        elif option in ("-i", "--inventory") and "," in value:
            yield from (("host", one) for one in value.split(","))


def variants(name: str) -> Iterator[str]:
    """Yield the forms in which others write a name: Ansible's groups, Prometheus, systemd's units."""
    yield name.replace("-", "_")
    yield name.replace("-", "_").replace(".", "_")
    yield name.replace(".", "-")
    yield name.replace("-", "\\x2d")


def stem(name: str) -> str:
    """Return the beginning of a folded list of names, such as `acme-gpu-[` of `acme-gpu-07`; or nothing."""
    found = re.fullmatch(r"(.*?)\d+\D*", name)
    return f"{found[1]}[" if found and len(found[1]) > 2 else ""
