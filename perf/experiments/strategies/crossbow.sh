#!/bin/sh
# Crossbow's claim on 8 simulated GPUs: model averaging with small mini-batches against synchronous
# training with one eight times as large, at several learning rates, three seeds each.
# Usage: crossbow.sh OMNI_RUN OUT [RATE...]
set -eu
program=$1 out=$2
shift 2
[ $# -gt 0 ] || set -- 0.01 0.04 0.1
here=$(dirname "$0")
for rate in "$@"; do
  for net in lenet "$here/small-resnet.cfg"; do
    name=$(basename "$net" .cfg)
    case $name in lenet) target=0.89 ;; *) target=0.82 ;; esac
    "$program" compare --net "$net" --data fashion-mnist --strategies sync@512,sma:8@64 --target $target \
      --seeds 3 --epochs 6 --out "$out/$name-$rate" --arrivals virtual --machine 8-gpus -- --learning-rate "$rate"
  done
done
