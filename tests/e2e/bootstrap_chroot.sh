#!/bin/bash
# A fresh Debian 12 machine, played by a minimal debootstrap chroot: the repository is cloned into it
# and ./bootstrap has to do the rest, from packages to a trained LeNet. By hand or nightly, not run by
# ctest: it takes minutes of apt and compilation, and needs root, debootstrap and a package mirror.
#
# usage: tests/e2e/bootstrap_chroot.sh [run|test]...        default: run
#   run    ./bootstrap run with 2 workers, then with 1: each has to end with a test accuracy >= 89 %,
#          and the second has to start training within 3 s
#   test   ./bootstrap test has to pass
# environment:
#   WORKTREE=1   take the files of the working tree, committed or not, instead of a clone of HEAD
#   KEEP=1       leave the chroot there
#   TMPDIR       where it is made (default /var/tmp; 4 GiB)
set -euo pipefail

. "$(dirname "$0")/chroot_machine.sh"

if [ "${1:-}" != --inside ]; then
  for command; do
    [[ $command == @(run|test) ]] || die "unknown argument '$command' (run or test)"
  done
  enter_new_machine "${@:-run}"
  exit
fi
root=$2 log=$2/var/log/omnivore.log
shift 2

repository=$(cd "$(dirname "$0")/../.." && pwd)
took() { printf '[chroot] %s: %d s\n' "$1" $((SECONDS - begin)); begin=$SECONDS; }
begin=$SECONDS

# ---- the machine ----
make_machine bookworm "$root"
took debootstrap

# ---- the clone ----
if [ -n "${WORKTREE:-}" ]; then
  mkdir "$root/root/omnivore"
  git -C "$repository" ls-files -z --cached --others --exclude-standard |
    tar -C "$repository" --ignore-failed-read --null --files-from=- --create |
    tar -C "$root/root/omnivore" --no-same-owner --extract
else
  git clone --quiet --no-hardlinks "$repository" "$root/root/omnivore"
fi

# bootstrap COMMAND [VARIABLE=VALUE]...: as a newcomer would, in an environment of its own
bootstrap() {
  local command=$1
  shift
  env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
    ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} "$@" \
    chroot "$root" /root/omnivore/bootstrap "$command" 2>&1 | tee "$log"
}

# ---- the promises ----
started=
for command; do
  case $command in
    run)
      for workers in 2 1; do
        bootstrap run STARPU_NCPU=$workers
        took "run with $workers workers"
        accuracy=$(grep -ao 'test accuracy [0-9.]*' "$log" | tail -n 1 | grep -o '[0-9.]*$') ||
          die 'no test accuracy was printed'
        awk -v a="$accuracy" 'BEGIN { exit !(a >= 89) }' ||
          die "test accuracy $accuracy %, expected at least 89 %"
        ready=$(sed -n 's/^\[bootstrap\] ready after \([0-9.]*\) s$/\1/p' "$log")
        [ -z "$started" ] || awk -v r="$ready" 'BEGIN { exit !(r < 3) }' ||
          die "a second run took $ready s to start"
        started=yes
        echo "[chroot] test accuracy $accuracy %, ready after $ready s"
      done
      ;;
    test)
      bootstrap test
      took test
      ;;
  esac
done
echo '[chroot] passed'
