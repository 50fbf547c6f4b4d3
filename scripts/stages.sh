# Sourced by the test scripts: stages with a time budget, a summary at the end.
# Each stage runs without standard input, under a limit of its own, and its figures are printed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
export CARGO_TERM_COLOR=${CARGO_TERM_COLOR:-never}
export RUST_BACKTRACE=${RUST_BACKTRACE:-0}
started=$SECONDS
summary=()
failed=0

# stage NAME SECONDS COMMAND…: runs the command and prints how long it took beside its budget. A stage over its budget
# is named in the summary; one that takes three times as long is hung: it is ended and has failed. A stage that fails is
# run once more, since real processes share the machine with whatever else runs there; the summary says so, and such a
# failure is to be looked into. Once a stage has failed twice the others are skipped.
stage() {
  local name=$1 budget=$(($2 * ${BUDGET_FACTOR:-1})) begin=$SECONDS status took verdict again=
  shift 2
  if [ "$failed" != 0 ]; then
    summary+=("$(printf '%-12s skipped' "$name")")
    return
  fi
  echo "=== $name (budget $budget s): $*"
  timeout --kill-after=10 $((budget * 3)) "$@" </dev/null
  status=$?
  if [ "$status" != 0 ] && [ "$name" != fmt ] && [ "$name" != clippy ]; then
    echo "=== $name failed ($status): once more"
    again=" at the second attempt"
    timeout --kill-after=10 $((budget * 3)) "$@" </dev/null
    status=$?
  fi
  took=$((SECONDS - begin))
  case $status in
    0) verdict=$([ "$took" -le "$budget" ] && echo "ok$again" || echo "ok$again, over its budget") ;;
    124 | 137) verdict="HUNG" failed=1 ;;
    *) verdict="FAILED ($status)" failed=1 ;;
  esac
  summary+=("$(printf '%-12s %4d s of %4d  %s' "$name" "$took" "$budget" "$verdict")")
}

# finish: prints the summary and exits.
finish() {
  echo "=== summary"
  printf '%s\n' "${summary[@]}"
  echo "total        $((SECONDS - started)) s"
  exit "$failed"
}

# target folder of cargo
target() { echo "${CARGO_TARGET_DIR:-$PWD/target}"; }
