#!/usr/bin/env bash
# tests/no_simdjson_exports.sh BINARY...: libparquet exports a simdjson of its own, so a
# program of ours must neither export nor take from outside one symbol of that name, but
# for the function that tells the version.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 BINARY..." >&2; exit 2; }
for binary in "$@"; do
  symbols=$(nm -D "$binary")
  if grep simdjson <<<"$symbols" | grep -v ' T mt_simdjson_version$'; then
    echo "$binary exports simdjson, or takes it from outside" >&2
    exit 1
  fi
  symbols=$(nm "$binary")
  grep -q mt_simdjson <<<"$symbols" || { echo "$binary holds no simdjson of ours" >&2; exit 1; }
done
