"""The manual pages and completions hold every command and option of --help, render and complete. --help
itself fits 100 columns.
Called with the folder that has them (man/, bash-completion/, zsh/) and the paths of omni-run and omni-perf."""

import os
import re
import shutil
import subprocess
import sys


def output(*command, **options):
    finished = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, **options)
    assert not finished.stderr, finished.stderr
    return finished.stdout


def names_in(text):
    """(options, commands) of a --help."""
    options = re.findall(r"^  (-\S+)", text, re.M)
    commands = re.findall(r"^  ([a-z-]+)", text.partition("Subcommands:\n")[2].partition("\n\n")[0], re.M)
    return [name for names in options for name in names.split(",")], commands


def completed(bash, *words):
    """What bash offers for the last word."""
    script = 'source "$1" && shift && COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) && "_${1//-/_}" && echo "${COMPREPLY[@]}"'
    return output("bash", "-c", script, "bash", bash, *words).split()


def check(share, program):
    name = os.path.basename(program)
    page = os.path.join(share, "man/man1", name + ".1")
    bash = os.path.join(share, "bash-completion/completions", name)
    zsh = os.path.join(share, "zsh/site-functions/_" + name)
    with open(page, encoding="utf-8") as file:
        manual = file.read().replace("\\-", "-")
    if shutil.which("man"):
        rendered = output("man", "--warnings", "-l", page, env={**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8"})
        assert "EXIT STATUS" in rendered, rendered[:2000]
    top = output(program, "--help")
    options, commands = names_in(top)
    assert len(commands) > 5 and "--version" in options, top
    assert set(commands) <= set(completed(bash, name, "")), completed(bash, name, "")
    for command in [None, *commands]:
        words = [command] if command else []
        text = output(program, *words, "--help")
        wide = [line for line in text.splitlines() if len(line) > 100]
        assert not wide, f"{name} {command} --help has lines of more than 100 columns: {wide}"
        if text == top:  # train
            words = []
        for option in names_in(text)[0]:
            assert f"\\fB{option}\\fR" in manual, f"{page} lacks {option} of {command}"
            assert option in completed(bash, name, *words, option), f"bash does not offer {option} after {command}"
            if shutil.which("zsh"):
                # zsh's own _arguments would need a terminal: ours prints what it is given.
                script = "_arguments() { print -l -- $@ }; words=($@[2,-1]) source $1"
                specs = output("zsh", "-fc", script, "zsh", zsh, name, *words, "")
                assert re.search(rf"^{re.escape(option)}\[", specs, re.M), f"zsh does not offer {option} after {command}"
    return bash


def main(share, omni_run, omni_perf):
    bash = check(share, omni_run)
    assert completed(bash, "omni-run", "--precision", "t") == ["tf32"]
    assert completed(bash, "omni-run", "valid", "--precision", "f") == ["fp32"]
    assert "lenet" in completed(bash, "omni-run", "--net", "le")
    assert completed(bash, "omni-run", "--metrics", "") == []  # bash then offers files
    assert "--per-class" not in completed(bash, "omni-run", "--per")
    check(share, omni_perf)
    print("manual pages and completions hold all of --help", "" if shutil.which("zsh") else "(no zsh here)")


if __name__ == "__main__":
    main(*sys.argv[1:])
