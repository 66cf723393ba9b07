"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_streams_jars
short_description: Build and pack the jars of a Streams application on the control machine
description:
  - Checks and packs the application's jars, and builds the kit's classes that bound RocksDB and tell the
    state.
  - In check mode nothing is built; the names follow from what would go in.
options:
  name: {type: str, required: true, description: "Name of the application."}
  version: {type: str, required: true, description: "Version of its kafka-streams library."}
  main_class: {type: str, required: true, description: "The class to start."}
  jars:
    type: list
    elements: dict
    required: true
    description: "Its jars, each with path and maybe sha256."
  lock: {type: path, description: "A lock of more jars, which are fetched with Maven and verified."}
  instance:
    type: dict
    required: true
    description: "An instance as the plan has it, for its RocksDB settings."
  java_release: {type: int, required: true, description: "Feature release that the hosts run."}
  cache: {type: path, required: true, description: "Folder that keeps fetched jars and archives."}
author: Kedge
"""

EXAMPLES = r"""
- name: Build the application's classes
  kedge_streams_jars:
    name: joins
    version: 4.3.1
    main_class: net.example.joins.Main
    jars: [{path: /srv/packages/joins-1.4.0-all.jar}]
    instance: "{{ _streams_app_planned | first }}"
    java_release: 17
    cache: ~/.cache/kedge
"""

RETURN = r"""
app:
  description: The application, with C(home), its folder on a host, and C(tarball).
  returned: success
  type: dict
kit:
  description: The kit's classes, likewise.
  returned: success
  type: dict
"""
