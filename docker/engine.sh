#!/bin/bash
# Run a command with a Docker engine of its own:
#   docker/engine.sh COMMAND…
# For a machine on which no engine runs, and which should be as before afterwards. The engine, its
# containers and COMMAND are in a network and a process tree of their own, which end with COMMAND.
# Nothing in there reaches the internet, so images are built before, by `make images`.
# Images and volumes stay in $ENGINE (by default var/engine). Needs root, dockerd, containerd, runc
# and iptables (Debian: docker.io, which need not be started).
set -eu
if [ "${1:-}" != --inside ]; then
  [ $# -gt 0 ] || { echo "usage: docker/engine.sh COMMAND…" >&2; exit 2; }
  for program in dockerd containerd runc iptables unshare docker; do
    command -v "$program" >/dev/null || {
      echo "docker/engine.sh: there is no $program. Install it (Debian: apt install docker.io)." >&2
      exit 1
    }
  done
  exec unshare --mount --net --pid --fork --kill-child --mount-proc "$0" --inside "$@"
fi
shift

engine=$(realpath -m "${ENGINE:-var/engine}")
mkdir -p "$engine"
ip link set lo up
mount -t tmpfs tmpfs /run # sockets and states, which end with this mount
export DOCKER_HOST=unix:///run/docker.sock
ulimit -n "$(ulimit -H -n)"
dockerd --host "$DOCKER_HOST" --data-root "$engine/data" >"$engine/log" 2>&1 &
dockerd=$!
end() {
  kill "$dockerd" 2>/dev/null && wait "$dockerd" || true
}
trap end EXIT
trap 'exit 143' TERM
trap 'exit 130' INT

tries=60
until docker info >/dev/null 2>&1; do
  tries=$((tries - 1))
  if [ "$tries" = 0 ] || ! kill -0 "$dockerd" 2>/dev/null; then
    echo "docker/engine.sh: the engine does not start; the end of $engine/log:" >&2
    tail -n 5 "$engine/log" >&2
    exit 1
  fi
  sleep 1
done
"$@"
