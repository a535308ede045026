#!/bin/sh
# Every shell script of the repository, known by its first line, under shellcheck. Exit 77: not installed.
set -eu
cd "$(dirname "$0")/../.."

if ! command -v shellcheck >/dev/null; then
  echo 'skipped: shellcheck is not installed'
  exit 77
fi

# shellcheck disable=SC2016 # the unquoted $1 is the point
if printf '#!/bin/sh\nrm $1\n' | shellcheck - >/dev/null; then
  echo 'this lint is broken: shellcheck accepts an unquoted $1'
  exit 1
fi

# No file name of ours holds a blank (a script that did would not be found below).
# shellcheck disable=SC2046
set -- $(find . -path './build*' -prune -o -path ./.git -prune -o -type f -print | sort |
  while read -r file; do
    LC_ALL=C awk 'NR == 1 && /^#!.*[\/ ](ba|da)?sh( |$)/ { print FILENAME } { exit }' "$file"
  done)
for must in ./bootstrap ./.ci/run ./runtime/build-starpu; do
  case " $* " in
    *" $must "*) ;;
    *) echo "$must is not among the scripts found: $*" && exit 1 ;;
  esac
done
shellcheck -x -P SCRIPTDIR "$@"
echo "$# scripts, nothing to say"
