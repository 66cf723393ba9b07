#!/bin/bash
# A double of Strimzi's bridge: the sandbox under the bridge's start script, keys and traits.
here=$(cd "$(dirname "$0")/.." && pwd)
given=${1#--config-file=}
kept=$(mktemp)
host=$(sed -n 's/^http.host=//p' "$given")
port=$(sed -n 's/^http.port=//p' "$given")
{
  echo "listeners=http://$host:$port"
  sed -n -e 's/^bridge.id=/id=/p' -e 's/^kafka.bootstrap.servers=/bootstrap.servers=/p' \
    -e 's/^kafka\.\(producer\|consumer\|admin\)\./\1./p' -e '/^kafka\.\(producer\|consumer\|admin\|bootstrap\)\./d' \
    -e 's/^kafka\./client./p' "$given"
  # What a bridge does otherwise: the longest accept queue, and requests in flight are dropped.
  echo "sandbox.backlog=4096"
  echo "sandbox.sigterm=drop"
} > "$kept"
# The file that it was given stands on its command line, as it does of the bridge.
# shellcheck disable=SC2086 # the variables hold words
exec java $JAVA_OPTS $KAFKA_BRIDGE_LOG4J_OPTS -cp "$here/libs/*" \
  "-Dkedge.double.of=$given" io.kedge.sandbox.SandboxRestMain "$kept"
