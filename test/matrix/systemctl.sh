#!/bin/bash
# The part of systemctl that the installation page uses, for a root in which systemd does not run: it starts
# what a unit says, as the user and in the directories that it says, with its credentials.
set -euo pipefail

verb=$1
shift
if [ "$verb" = daemon-reload ]; then exit; fi
if [ "${1:-}" = --now ]; then shift; fi
unit=${1%.service}
file=/etc/systemd/system/$unit.service
[ -e "$file" ] || file=/usr/lib/systemd/system/$unit.service
[ -e "$file" ] || { echo "Unit $unit.service not found." >&2; exit 5; }
pidfile=/run/$unit.pid

value() { sed -n "s/^$1=//p" "$file" | tail -n 1; }

stop() {
  [ -e "$pidfile" ] || return 0
  kill -TERM "$(cat "$pidfile")" || true
  while kill -0 "$(cat "$pidfile")" 2> /dev/null; do sleep 0.1; done
  rm "$pidfile"
}

start() {
  local user group home rights=()
  user=$(value User)
  group=$(value Group)
  home=$(getent passwd "$user" | cut -d: -f6)
  for directory in $(value StateDirectory); do
    install -d -o "$user" -g "$group" -m "$(value StateDirectoryMode)" "/var/lib/$directory"
  done
  local credentials=/run/credentials/$unit.service
  install -d -m 711 /run/credentials
  install -d -m 500 -o "$user" "$credentials"
  sed -n 's/^LoadCredential=//p' "$file" | while IFS=: read -r name source; do
    install -m 400 -o "$user" "$source" "$credentials/$name"
  done
  if [ -n "$(value AmbientCapabilities)" ]; then
    rights=(--inh-caps=+net_bind_service --ambient-caps=+net_bind_service)
  fi
  local directory
  directory=$(value WorkingDirectory)
  cd "${directory/\%S//var/lib}"
  # shellcheck disable=SC2046
  setpriv --reuid="$user" --regid="$group" --clear-groups --no-new-privs "${rights[@]}" \
    env -i PATH=/usr/local/bin:/usr/bin HOME="$home" CREDENTIALS_DIRECTORY="$credentials" \
    sh -c "umask $(value UMask); exec $(value ExecStart)" < /dev/null > "/var/log/$unit.log" 2>&1 &
  echo $! > "$pidfile"
}

case $verb in
  enable | start) start ;;
  disable | stop) stop ;;
  restart) stop && start ;;
  *) echo "systemctl: unknown verb $verb" >&2; exit 1 ;;
esac
