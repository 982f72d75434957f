#!/usr/bin/env bash
# check_failure.sh PROGRAM RANKS CODE TEXT SECONDS ARGUMENT...
#
# Runs the program on so many ranks: it must end with this code within so many seconds, and print exactly one message of
# ours, which holds TEXT (a regular expression); none where TEXT is empty.
set -uo pipefail
program=$1 ranks=$2 code=$3 text=$4 seconds=$5
shift 5
begin=$SECONDS
output=$(timeout 60 mpirun --allow-run-as-root --oversubscribe --bind-to none -q -n "$ranks" "$program" "$@" 2>&1)
got=$?
took=$((SECONDS - begin))
fail() { printf 'FAILED: %s\n%s\n' "$1" "$output" >&2; exit 1; }
[ "$got" = "$code" ] || fail "exit code $got instead of $code"
[ "$took" -le "$seconds" ] || fail "took $took s, allowed are $seconds s"
messages=$(grep -c '^printed by rank' <<<"$output")
if [ -z "$text" ]; then
  [ "$messages" = 0 ] || fail "a message where none is due"
else
  [ "$messages" = 1 ] || fail "$messages messages instead of one"
  grep '^printed by rank' <<<"$output" | grep -Eq "$text" || fail "the message does not hold '$text'"
fi
echo "code $got after $took s"
