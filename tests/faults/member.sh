#!/bin/sh
# A member of a ComputeDomain, as its container runs it: exports memory all the time, imports the memory of its domain's other members,
# holds one such import for as long as it lasts, and tries one import a round that must be refused. Judges nothing: every attempt becomes
# a line `KIND BEGIN END EXPORTED DOMAIN NODE HANDLE CODE TEXT` of its log: times of /proc/uptime, EXPORTED that of the handle's export,
# DOMAIN and NODE of the exporter.
# usage: member.sh FOLDER DOMAIN NODE; FOLDER is shared by all nodes and holds DOMAIN/NODE/{handle,log} of every member.
mnnvl=/run/mnnvl/bin/mnnvl
folder=$1 domain=$2 node=$3
mine=$folder/$domain/$node
export_every=6
exporter='' previous='' round=0

trap 'exit 0' TERM
mkdir -p "$mine"

now() {
  read -r uptime _ </proc/uptime
}

note() {
  printf '%s\n' "$*" >>"$mine/log"
}

# A new export every few rounds. The one before stays until the next: somebody may just be importing it.
export_memory() {
  now; begin=$uptime
  mkfifo /tmp/handle
  "$mnnvl" export --text "memory of $domain/$node" >/tmp/handle 2>/tmp/export.err &
  fresh=$!
  if read -r handle </tmp/handle; then
    echo "$handle $begin" >"$mine/.handle" && mv "$mine/.handle" "$mine/handle"
    [ -z "$previous" ] || kill "$previous"
    previous=$exporter exporter=$fresh exported=$round
  else
    wait "$fresh"; code=$?
    now; note export "$begin" "$uptime" "$begin" "$domain" "$node" - "$code" "$(cat /tmp/export.err)"
  fi
  rm -f /tmp/handle
}

# $1: the handle file of a member.
owner_of() {
  rest=${1#"$folder"/}
  owner_domain=${rest%%/*}
  rest=${rest#*/}
  owner_node=${rest%%/*}
}

import_from() {
  now; begin=$uptime
  read -r handle since <"$1" 2>/dev/null || return
  owner_of "$1"
  text=$("$mnnvl" import "$handle" 2>&1); code=$?
  now; note import "$begin" "$uptime" "$since" "$owner_domain" "$owner_node" "$handle" "$code" "$text"
}

# Only the end of a held import is noted. What has been lost or was refused is taken up again in the next round.
hold() {
  for file in "$folder/$domain"/*/handle; do
    owner_of "$file"
    [ "$owner_node" != "$node" ] && read -r handle since <"$file" 2>/dev/null || continue
    touch /tmp/holding
    (
      now; begin=$uptime
      text=$("$mnnvl" import --hold "$handle" 2>&1); code=$?
      now; note hold "$begin" "$uptime" "$since" "$owner_domain" "$owner_node" "$handle" "$code" "$text"
      rm -f /tmp/holding
    ) &
    return
  done
}

import_foreign() {
  set --
  for file in "$folder"/*/*/handle; do
    owner_of "$file"
    [ "$owner_domain" = "$domain" ] || set -- "$@" "$file"
  done
  [ $# -gt 0 ] || return
  shift $((round % $#))
  import_from "$1"
}

while :; do
  round=$((round + 1))
  if [ -z "$exporter" ] || [ $((round - exported)) -ge $export_every ]; then export_memory; fi
  for file in "$folder/$domain"/*/handle; do import_from "$file"; done
  import_foreign
  [ -e /tmp/holding ] || hold
  sleep 1
done
