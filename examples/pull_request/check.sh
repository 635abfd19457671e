#!/usr/bin/env bash
# Records a program at two commits, without a GPU, and says what the second changed of its memory.
#
#   check.sh BASE 'python train.py' [LIMIT [WORLD_SIZE [RANKS [SETTING]]]]
#
# Run in a git checkout; the table (Markdown) goes to memory-diff.md. Exit code: 0 fine, 1 the smallest
# card grew beyond the limit, 2 bad input, 3 not known. action.yml at the root of allocmark calls it.
set -uo pipefail
base=$1 command=$2 limit=${3:-1%} world_size=${4:-1} ranks=${5:-distinct} setting=${6:-}
scratch=$(mktemp -d)
trap 'git worktree remove --force "$scratch/code" 2>/dev/null; rm -rf "$scratch"' EXIT

record() { # in the folder of the program, into another
    mkdir -p "$2"
    (cd "$1" && allocmark record --world-size "$world_size" --ranks "$ranks" \
        --out "$2/job.pickle" -- bash -c "$command")
}

git worktree add --quiet --detach "$scratch/code" "$base" || exit 2
inside=$(git rev-parse --show-prefix)
record "$scratch/code/$inside" "$scratch/base" || exit
record "$PWD" "$scratch/head" || exit
allocmark diff "$scratch/base" "$scratch/head" --limit "$limit" ${setting:+--setting "$setting"} \
    --format md > memory-diff.md
status=$?
cat memory-diff.md
exit $status
