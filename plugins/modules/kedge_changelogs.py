"""Documents the action of this name, which runs on the control machine."""

from __future__ import annotations

DOCUMENTATION = r"""
module: kedge_changelogs
short_description: Hold the changelog topics of a Streams application against its plan
description:
  - Asks the cluster how the application's changelogs are kept, and warns, or fails, where its state could
    not be restored from them. An application that has not run yet has none.
  - Runs on the control machine. Changes nothing.
options:
  bootstrap_servers: {type: str, required: true, description: "Where the cluster answers."}
  client: {type: dict, default: {}, description: "More keys for the client."}
  secrets: {type: dict, default: {}, description: "Keys for the client that are never shown."}
  application: {type: str, required: true, description: "Name of the application."}
  applications: {type: dict, required: true, description: "All applications, as the plan has them."}
author: Kedge
"""

EXAMPLES = r"""
- name: See that the changelogs keep what a restore needs
  kedge_changelogs:
    bootstrap_servers: leaf1.example.net:9092
    application: joins
    applications: "{{ hostvars.localhost.plan_made.plan.applications }}"
"""
