# shellcheck shell=bash
# Sourced: a fresh machine, played by a minimal debootstrap chroot. Needs root, debootstrap and a
# package mirror.

die() { printf '%s: %s\n' "${0##*/}" "$*" >&2; exit 1; }

# Runs the script again as `SCRIPT --inside FOLDER ARGUMENTS...`, in a mount and process namespace of
# its own: all it mounts and starts ends with it, however it ends.
enter_new_machine() {
  [ "$(id -u)" = 0 ] || die 'needs root'
  command -v debootstrap >/dev/null || die 'needs debootstrap (apt-get install debootstrap)'
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/omnivore-chroot.XXXXXX")
  chmod 755 "$root" # apt drops its privileges
  if [ -n "${KEEP:-}" ]; then echo "chroot: $root"; else trap 'rm -rf --one-file-system "$root"' EXIT; fi
  unshare --mount --pid --fork --kill-child "$0" --inside "$root" "$@"
}

# make_machine SUITE FOLDER
make_machine() {
  local root=$2 mirror output
  # shellcheck disable=SC2016 # apt's variables
  mirror=$(apt-get indextargets --format '$(LABEL)|$(REPO_URI)' 'Created-By: Packages' |
    awk -F'|' '$1 == "Debian" && !mirror { mirror = $2 } END { print mirror }')
  [ -n "$mirror" ] || die "no Debian mirror among this machine's package sources (run apt-get update first)"
  output=$(debootstrap --variant=minbase "$1" "$root" "$mirror" 2>&1) || die "debootstrap: $output"
  mount -t proc proc "$root/proc"
  mount -t sysfs -o ro sysfs "$root/sys"
  mount -t tmpfs tmpfs "$root/dev/shm" # MPICH
  mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts" # tests of terminals
  ln -sf pts/ptmx "$root/dev/ptmx"
  # These reach the mirror from here: names, proxies, certificates.
  cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
  apt-config dump | grep -E '^Acquire::(https?|Check)[:-]' >"$root/etc/apt/apt.conf.d/00machine" || true
  if [[ $mirror == https:* ]]; then
    mkdir -p "$root/etc/ssl/certs"
    cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
  fi
}
