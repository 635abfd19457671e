#!/usr/bin/env bash
# A prolog that keeps jobs off a node whose GPU memory is not as it should be: a node whose prolog
# fails is drained by slurmd, and the job is put back into the queue. In slurm.conf:
#
#   Prolog=/etc/slurm/prolog.d/allocmark.sh
#   PrologFlags=Alloc
#
# ALLOCMARK names the command, in an environment that root may run; RECORD a folder with results of
# this GPU model and driver (`allocmark run`), which bytes and times are held against. Both are
# optional, as is torch: what needs it is left out.
set -uo pipefail

: "${ALLOCMARK:=/opt/allocmark/bin/allocmark}"
: "${RECORD:=/opt/allocmark/results}"

# A prolog has no GPU set in its environment, only what slurmd says that the job gets.
export CUDA_VISIBLE_DEVICES=${CUDA_VISIBLE_DEVICES:-${SLURM_JOB_GPUS:-}}
[[ -n $CUDA_VISIBLE_DEVICES ]] || exit 0 # A job without GPUs.

arguments=()
[[ -d $RECORD ]] && arguments=(--results "$RECORD")
reasons=$(timeout 60 "$ALLOCMARK" check "${arguments[@]}" 2>&1)
code=$?
case $code in
    0) ;;
    # Somebody else uses the GPU: shared nodes are made for that.
    3) logger -t allocmark "job ${SLURM_JOB_ID:-?}: $reasons" ;;
    *)
        logger -t allocmark "job ${SLURM_JOB_ID:-?}: check ended with $code: $reasons"
        echo "print allocmark check ($code): ${reasons%%$'\n'*}"
        exit 1
        ;;
esac
