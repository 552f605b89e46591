#!/usr/bin/env bash
# tests/no_simdjson_exports.sh BINARY...: libparquet exports a simdjson of its own, so a
# program of ours must neither export nor take from outside one symbol of that name.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 BINARY..." >&2; exit 2; }
for binary in "$@"; do
  nm -D --defined-only "$binary" | grep simdjson && { echo "$binary exports simdjson" >&2; exit 1; }
  nm -D --undefined-only "$binary" | grep simdjson && { echo "$binary takes simdjson from outside" >&2; exit 1; }
  nm "$binary" | grep -q mt_simdjson || { echo "$binary has no simdjson of ours, or is stripped" >&2; exit 1; }
done
