"""Passwords in sight, one each, in the places where inventories have them."""

from __future__ import annotations

from support.inventories.wrong_files import added


def secret(text, line=None):
    """Make a fault of a password in a file of variables."""
    line = line or text.splitlines()[-1].split(":")[0]
    return added("group_vars/all/x.yml", text, line, "a password stands readable", "ansible-vault")


SECRETS = {
    # passwords in other places
    "password_of_a_proxy": added(
        "group_vars/all/proxy.yml",
        "env: {https_proxy: 'http://ops:hunter2@proxy:3128'}\n",
        "https_proxy",
        "a password stands readable",
        "ansible-vault",
    ),
    "password_of_a_jump_host": added(
        "host_vars/gpu2.yml",
        'ansible_ssh_common_args: -o ProxyCommand="sshpass -p hunter2 ssh -W %h:%p jump"\n',
        "sshpass",
        "a password stands readable",
        "ansible-vault",
        "gpu2",
    ),
    "password_that_is_a_key": added(
        "group_vars/gpu_nodes.yml",
        f"x: 1\ndeploy: |\n  -----BEGIN OPENSSH {'PRIVATE'} KEY-----\n  hunter2\n",
        "deploy",
        "a password stands readable",
        "ansible-vault",
    ),
    "password_by_a_short_name": added(
        "group_vars/all/bmc.yml",
        "bmc:\n  user: admin\n  pwd: hunter2\n",
        "pwd",
        "a password stands readable",
        "ansible-vault",
    ),
    "password_that_is_a_date": added(
        "group_vars/all/bmc.yml",
        "bmc_password: 2026-11-22\n",
        "bmc_password",
        "a password stands readable",
        "ansible-vault",
    ),
    "password_in_a_list": added(
        "group_vars/all/repos.yml",
        "repos:\n  - deb https://ops:hunter2@repo.example.org/x y z\n",
        "- deb",
        "a password stands readable",
        "ansible-vault",
    ),
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
    "password_of_no_host": added(
        "host_vars/old9.yml",
        "x: 1\nbmc_password: hunter2\n",
        "bmc_password",
        "a password stands readable",
        "vault",
    ),
    "password_of_no_group": added(
        "group_vars/old/x.yml",
        "bmc: {user: a, pwd: hunter2}\n",
        "bmc",
        "a password stands readable",
        "vault",
    ),
}
