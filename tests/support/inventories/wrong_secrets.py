"""Passwords in sight, one each, in the places where inventories have them."""

from __future__ import annotations

from support.inventories.wrong_files import added


def secret(text, line=None, path="group_vars/all/x.yml", host=...):
    """Make a fault of a password in a file of variables; its last line says which, where none is given."""
    line = line or text.splitlines()[-1].split(":")[0]
    return added(path, text, line, "a password in plain text", "vault", host)


SECRETS = {
    "password_of_a_proxy": secret("env: {https_proxy: 'http://ops:hunter2@proxy:3128'}\n", "https_proxy"),
    "password_of_a_jump_host": secret(
        'ansible_ssh_common_args: -o ProxyCommand="sshpass -p hunter2 ssh -W %h:%p jump"\n',
        path="host_vars/gpu2.yml",
        host="gpu2",
    ),
    "password_that_is_a_key": secret(
        f"x: 1\ndeploy: |\n  -----BEGIN OPENSSH {'PRIVATE'} KEY-----\n  hunter2\n",
        "deploy",
        "group_vars/gpu_nodes.yml",
    ),
    "password_by_a_short_name": secret("bmc:\n  user: admin\n  pwd: hunter2\n"),
    "password_that_is_a_date": secret("bmc_password: 2026-11-22\n"),
    "password_in_a_list": secret("repos:\n  - deb https://ops:hunter2@repo.example.org/x y z\n", "- deb"),
    "password_in_an_expression": secret("ansible_password: \"{{ 'hunter2' }}\"\n"),
    "password_for_want_of_another": secret("bmc_password: \"{{ site_word | default('hunter2') }}\"\n"),
    "password_in_german": secret("kennwort: hunter2\n"),
    "password_of_no_user": secret("proxy: 'http://:hunter2@proxy:3128'\n"),
    "password_of_ipmitool": secret("cmd: ipmitool -I lanplus -H 10.9.0.1 -U admin -P hunter2 power status\n"),
    "password_of_curl": secret("cmd: curl -u admin:hunter2 https://bmc.example.org\n"),
    "password_of_an_environment": secret("env: [BMC_PASSWORD=hunter2]\n"),
    "password_of_a_named_value": secret("env:\n  - {name: BMC_PASSWORD, value: hunter2}\n", "- {name"),
    "password_of_sshpass": secret("cmd: SSHPASS=hunter2 sshpass -e ssh jump\n"),
    "header_of_a_service": secret("headers: {Authorization: 'Bearer hunter2hunter2'}\n"),
    "token_by_its_beginning": secret("x: ghp_" + "hunter2" * 5 + "\n"),
    "credentials": secret("bmc_credentials: admin/hunter2\n"),
    "key_of_munge": secret("munge_key: hunter2hunter2\n"),
    "password_of_no_host": secret("x: 1\nbmc_password: hunter2\n", path="host_vars/old9.yml"),
    "password_of_no_group": secret("bmc: {user: a, pwd: hunter2}\n", path="group_vars/old/x.yml"),
}
