#!/bin/bash
# The bundle on another machine: a bare Debian 13 chroot, with nothing installed and no GPU. By hand
# or nightly: it needs root, debootstrap, a package mirror, and the archive that ./bootstrap bundle
# made.
#
# usage: tests/e2e/bundle_chroot.sh ARCHIVE.tar.xz
# environment: KEEP=1 leaves the chroot there; TMPDIR: where it is made (default /var/tmp)
set -euo pipefail
. "$(dirname "$0")/chroot_machine.sh"

if [ "${1:-}" != --inside ]; then
  [ -f "${1:-}" ] || die 'usage: tests/e2e/bundle_chroot.sh ARCHIVE.tar.xz'
  [ "$(wc -c <"$1")" -lt $((60 * 1048576)) ] || die "$1 is larger than 60 MiB"
  enter_new_machine "$(realpath "$1")"
  exit
fi
root=$2 archive=$3
make_machine trixie "$root"
mkdir -p "$root/opt/any where"
tar -C "$root/opt/any where" --strip-components=1 -xf "$archive"

in_machine() { env -i HOME=/root PATH=/usr/sbin:/usr/bin:/bin chroot "$root" "$@"; }
bin='/opt/any where/bin'
in_machine "$bin/omni-run" devices | tee "$root/devices"
grep -q '^worker 0: CPU' "$root/devices" || die 'no CPU worker was found'
missing='libcudart.so.13 libcublas.so.13 libcublasLt.so.13 libcudnn.so.9'
grep -q "^no GPU: its libraries were not found on this host: $missing$" "$root/devices" ||
  die 'devices does not say why there is no GPU'
in_machine "$bin/mpiexec" -n 2 "$bin/omni-run" devices | tee "$root/devices"
grep -q '^link to rank 1 on ' "$root/devices" || die 'two ranks did not start'
in_machine "$bin/omni-run" --net lenet --max-batches 60 --trace /tmp/trace 2>&1 | tee "$root/training"
accuracy=$(grep -ao 'test accuracy [0-9.]*' "$root/training" | tail -n 1 | grep -o '[0-9.]*$')
awk -v a="$accuracy" 'BEGIN { exit !(a > 90) }' || die "test accuracy $accuracy %"
in_machine "$bin/omni-perf" summary /tmp/trace >/dev/null || die 'omni-perf failed'
status=0
in_machine "$bin/omni-gpu-check" || status=$?
[ $status = 77 ] || die "omni-gpu-check: exit status $status, expected 77"
echo '[chroot] passed'
