"""Ansible module: make a locked jar set present, on the control machine by design."""

from __future__ import annotations

from pathlib import Path

from ansible.module_utils.basic import AnsibleModule

from kedge.deploy.locked_jars import JarError, archive, archive_path, lock_key, resolve

DOCUMENTATION = r"""
module: maven_jars
short_description: Make a locked set of jars present in one flat folder
description:
  - Fetches what is missing through Maven, with the user's own settings, and proves each jar's SHA-256.
  - Meant for the control machine (C(delegate_to=localhost), C(run_once=true)); nodes get the packed archive.
options:
  lock:
    description: Path of the lock, lines of C(group:artifact:version[:classifier] sha256), with transitives.
    type: path
    required: true
  dest:
    description: Folder that will hold exactly the jars of the lock.
    type: path
    required: true
  archives:
    description: Folder to pack the set into as one tar for the nodes; without it nothing is packed.
    type: path
"""

EXAMPLES = r"""
- name: The Kafka jars are on the control machine
  maven_jars:
    lock: "{{ playbook_dir }}/roles/jar_set/files/kafka-4.3.1.lock"
    dest: ~/.cache/kedge/jars/kafka-4.3.1
    archives: ~/.cache/kedge/archives
  delegate_to: localhost
  run_once: true
"""

RETURN = r"""
path:
  description: The folder with the jars.
  type: str
  returned: always
key:
  description: Names exactly these jars; it changes with any version or checksum.
  type: str
  returned: always
jars:
  description: The file names that were, or in check mode would be, added or removed.
  type: list
  elements: str
  returned: always
tarball:
  description: The packed set; its name and its bytes depend on the jars alone.
  type: str
  returned: when O(archives) is given; in check mode the file need not exist yet
"""


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "lock": {"type": "path", "required": True},
            "dest": {"type": "path", "required": True},
            "archives": {"type": "path"},
        },
        supports_check_mode=True,
    )
    lock, folder = Path(module.params["lock"]), Path(module.params["dest"])
    try:
        jars = resolve(lock, folder, check=module.check_mode)
        result = {"changed": bool(jars), "path": str(folder), "key": lock_key(lock), "jars": jars}
        if module.params["archives"]:
            archives = Path(module.params["archives"])
            packed = archive_path(lock, archives) if module.check_mode else archive(lock, folder, archives)
            result["tarball"] = str(packed)
    except JarError as error:
        module.fail_json(msg=f"{error}. No jar was put on a host. Fix that, then run the playbook again")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
