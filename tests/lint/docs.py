"""Documents can be read and typed: README is short, sentences are, links and anchors lead somewhere, and
the programs know options and messages. Arguments: programs whose --help is asked; without them options are not checked."""

import os
import posixpath
import re
import subprocess
import sys

from source_tree import ROOT, run

README_LINES = 150
CONTRIBUTING_LINES = 210
SENTENCE_WORDS = 25
TROUBLE = "docs/user/troubleshooting.md"  # whose tables show messages of the programs
SITE = "docs/mkdocs.yml"
FENCE = re.compile(r"^ *```.*?^ *```$", re.M | re.S)
LINK = re.compile(r"!?\[([^\]]*)\]\(([^)\s]+)\)")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]+")
SCRIPTS = ("docs/results/plots/", "perf/gpu/", "perf/peers/", "perf/experiments/", "tests/fuzz/run.py")  # have options of their own
# Of cmake, ctest, sbatch and srun, which documents show, too.
OTHERS = {"--build", "--chdir", "--cpu-bind", "--het-group", "--install", "--mpi", "--no-kill", "--ntasks-per-node", "--open-mode", "--output", "--preset", "--prefix", "--requeue", "--signal", "--target", "--test-dir", "--find", "--help", "--version"}


def is_short(path):
    return path == "README.md" or (path.startswith("docs/") and not path.startswith("docs/results/"))


def is_document(path):
    return path.endswith(".md")


def blank(match):
    return "\n" * match.group(0).count("\n")


def paragraphs(text):
    """(line, text) of every paragraph, list item and table cell, without code."""
    found, now, start = [], [], 0
    for number, line in enumerate(FENCE.sub(blank, text).splitlines() + [""], 1):
        table, item = line.startswith("|"), re.match(r" {0,3}(?:[*-]|\d+\.) ", line)
        if table or item or not line.strip() or line.startswith(("#", "    ")):
            if now:
                found.append((start, " ".join(now)))
            now = []
        if table:
            found += [(number, cell) for cell in line.strip("|").split("|")]
        elif line.strip() and not line.startswith(("#", "    ")):
            start = start if now else number
            now.append(line[item.end():] if item else line)
    return found


def sentences(text):
    text = LINK.sub(r"\1", re.sub(r"`[^`]*`", "code", text))
    return re.split(r"(?<=[.!?])[\"')*]*\s+", text)


def long_sentences(path, text):
    return [f"{path}:{line}: a sentence of {count} words, at most {SENTENCE_WORDS}: {sentence.strip()}"
            for line, part in paragraphs(text) for sentence in sentences(part)
            if (count := len(re.findall(r"[^\W_][\w'./%,-]*", sentence))) > SENTENCE_WORDS]


def anchors(text):
    found = set()
    for title in re.findall(r"^#+ (.*)$", FENCE.sub(blank, text), re.M):
        slug = re.sub(r"[^\w -]", "", LINK.sub(r"\1", title).lower()).strip().replace(" ", "-")
        number = 0
        while (name := f"{slug}-{number}" if number else slug) in found:
            number += 1
        found.add(name)
    return found


def dead_links(path, text, files):
    problems = []
    for match in LINK.finditer(FENCE.sub(blank, text)):
        target, _, anchor = match.group(2).partition("#")
        if re.match(r"\w+:", match.group(2)):
            continue
        there = posixpath.normpath(posixpath.join(posixpath.dirname(path), target)) if target else path
        if there not in files and not os.path.exists(os.path.join(ROOT, there)):
            problems.append(f"{path}: leads to {there}, which does not exist")
        elif anchor and anchor not in anchors(files.get(there, "")):
            problems.append(f"{path}: {there} has no heading #{anchor}")
    return problems


def commands(text):
    return re.findall(r"^  ([a-z][a-z-]+)", text.partition("Subcommands:")[2].partition("\n\n")[0], re.M)


def lonely(files):
    """Pages that no other page leads to."""
    led_to = {posixpath.normpath(posixpath.join(posixpath.dirname(path), match.group(2).partition("#")[0]))
              for path, text in files.items() if is_document(path) for match in LINK.finditer(text)
              if not match.group(2).startswith("#")}
    return [f"{path}: no document leads here" for path in files
            if path.startswith("docs/") and is_document(path) and path not in led_to]


def not_in_site(files):
    pages = re.findall(r": (\S+\.md)$", files.get(SITE, ""), re.M)
    return [f"{SITE}: lacks {path}" for path in files
            if SITE in files and path.startswith("docs/") and is_document(path) and path not in pages]


def dead_paths(path, text, files):
    """Files and folders of the repository that a code span names."""
    named = set(re.findall(r"`((?:apps|codelets|docs|layers|perf|runtime|scheduling|tests)/[\w./-]+)`", FENCE.sub(blank, text)))
    return [f"{path}: names {name}, which does not exist" for name in sorted(named)
            if name not in files and not os.path.exists(os.path.join(ROOT, name))]


def help_of(program):
    """{command: --help}; "": of the program itself."""
    def ask(*words):
        return subprocess.run([program, *words, "--help"], capture_output=True, text=True, check=True).stdout
    text = ask()
    # These command lines go on with the options of a training.
    return {"": text} | {command: ask(command) + text * (command in ("slurm", "ensemble")) for command in commands(text)}


def code_of(text):
    return FENCE.findall(text) + re.findall(r"`([^`]*)`", FENCE.sub(blank, text))


def unknown_words(path, text, options):
    """Options that no program has, by themselves or in the command that is shown."""
    return [f"{path}: no program knows {word}" for word in sorted(set(OPTION.findall("\n".join(code_of(text)))) - options)]


def undocumented(files, helps):
    """Options of our programs that no page explains."""
    shown = {option for path, text in files.items() if is_document(path) and is_short(path)
             for option in OPTION.findall("\n".join(code_of(text)))}
    return [f"no page of docs/ names {option} of {program}" for program, texts in helps.items() if program.startswith("omni-")
            for option in sorted(set(re.findall(r"^  (?:-\w,)?(--[a-z][a-z-]*)", "".join(texts.values()), re.M)) - shown - OTHERS)]


def wrong_commands(path, text, helps, options):
    """Commands of ours, as code shows them, whose --help lacks the command or an option that another one has."""
    problems = []
    for line in "\n".join(code_of(text)).replace("\\\n", " ").splitlines():
        for program, rest in re.findall(r"(?:^|[\s/(])(omni-run|omni-perf|\./bootstrap) ([^#|;&>)]*)", line):
            words, known = rest.split(), helps.get(program, {})
            if program == "./bootstrap" and words[:1] == ["run"]:
                program, words, known = "omni-run", words[1:], helps.get("omni-run", {})
            command = words[0] if words and re.fullmatch(r"[a-z][a-z-]*", words[0]) else ""
            if known and command not in known:
                problems.append(f"{path}: {program} has no command {command}")
            elif known:
                ends = words.index("--") if "--" in words else len(words)
                for part, help_text in ((words[:ends], known[command]), (words[ends + 1:], known[""])):
                    has = set(OPTION.findall(help_text))
                    problems += [f"{path}: '{program} {command}' has no {word}" for each in part
                                 for word in OPTION.findall(each.partition("=")[0]) if word in options - has]
    return problems


def unknown_messages(path, text, sources):
    """Messages in the first column of a table: `...` stands for what a program fills in."""
    cells = re.findall(r"^\| ([^|]*`[^|]*) \|", text, re.M)
    return [f"{path}: no program says '{part.strip()}'"
            for cell in cells for message in re.findall(r"`([^`]+)`", cell)
            for part in message.split("...") if part.strip() not in sources]


def checker(helps):
    def check(files):
        problems = []
        known = set(OPTION.findall("".join(text for texts in helps.values() for text in texts.values()))) | OTHERS
        for path, text in files.items():
            if path.startswith(SCRIPTS):
                known |= set(OPTION.findall(text))
        sources = "".join(text for path, text in files.items() if path.endswith((".cpp", ".hpp")))
        sources = re.sub(r'"\s*"', "", sources)  # one literal in several lines
        for path, text in files.items():
            if not is_document(path):
                continue
            if path == TROUBLE:
                problems += unknown_messages(path, text, sources)
            lines = {"README.md": README_LINES, "CONTRIBUTING.md": CONTRIBUTING_LINES}.get(path)
            if lines and len(text.splitlines()) > lines:
                problems.append(f"{path}: {len(text.splitlines())} lines, at most {lines}")
            problems += dead_links(path, text, files)
            if is_short(path):
                problems += long_sentences(path, text) + dead_paths(path, text, files)
                if helps:
                    problems += unknown_words(path, text, known) + wrong_commands(path, text, helps, known)
        return problems + lonely(files) + not_in_site(files) + undocumented(files, helps)
    return check


def words(count):
    return "word " * count


helps = {os.path.basename(program): help_of(program) for program in sys.argv[1:]}
if helps:
    usage = subprocess.run([os.path.join(ROOT, "bootstrap"), "-h"], capture_output=True, text=True, check=True).stdout
    helps["./bootstrap"] = dict.fromkeys(["", *re.findall(r"\./bootstrap ([a-z]+)", usage)], usage)
# The examples need no program.
check_example = checker({"omni-run": {"": "  --net TEXT\n  --epochs N\n", "time": "  --net TEXT\n"},
                         "./bootstrap": {"": "", "test": ""}})
INDEX = {"index.md": f"[a](docs/a.md) [o](docs/o.md) [t]({TROUBLE})", TROUBLE: "", "docs/a.md": "",
         "docs/o.md": "`--net` `--epochs`"}
run(lambda files: check_example(INDEX | files) if len(files) < 50 else checker(helps)(files),
    bad=[
        ({"docs/b.md": "[a](a.md)"}, "docs/b.md: no document leads here"),
        ({"README.md": "x.\n" * 151}, "README.md: 151 lines, at most 150"),
        ({"CONTRIBUTING.md": "x.\n" * 211}, "211 lines, at most 210"),
        ({"docs/a.md": f"# A\n\nShort. {words(26)}."}, "docs/a.md:3: a sentence of 26 words"),
        ({"docs/a.md": f"* {words(13)}\n  {words(13)}"}, "docs/a.md:1: a sentence of 26 words"),
        ({"docs/a.md": f"| a | {words(26)} |"}, "docs/a.md:1: a sentence of 26 words"),
        ({"docs/a.md": "[x](b.md)"}, "docs/a.md: leads to docs/b.md, which"),
        ({"docs/a.md": "[x](../b.md#c-d)", "b.md": "# C\n```\n# C d\n```\n"}, "b.md has no heading #c-d"),
        ({"docs/a.md": "[x](#c)"}, "docs/a.md has no heading #c"),
        ({"docs/a.md": "`tests/no/such_test.cpp`"}, "names tests/no/such_test.cpp, which does not exist"),
        ({"docs/a.md": "`omni-run --nett`"}, "docs/a.md: no program knows --nett"),
        ({"docs/a.md": "```\nomni-run --nett x\n```\n"}, "no program knows --nett"),
        ({"docs/a.md": "`omni-run tme -q`"}, "omni-run has no command tme"),
        ({"docs/a.md": "```sh\nbuild/bin/omni-run time \\\n  --epochs 3\n```\n"}, "docs/a.md: 'omni-run time' has no --epochs"),
        ({"docs/a.md": "`./bootstrap tests`"}, "docs/a.md: ./bootstrap has no command tests"),
        ({"docs/a.md": "`./bootstrap run tme`"}, "docs/a.md: omni-run has no command tme"),
        ({SITE: f"nav:\n  - A: docs/b.md\n  - B: {TROUBLE}\n  - C: docs/o.md\n"}, "docs/mkdocs.yml: lacks docs/a.md"),
        ({"docs/o.md": "`--net x`, --epochs"}, "no page of docs/ names --epochs of omni-run"),
        ({TROUBLE: "| `no ... there` | x |", "a.cpp": '"no {} here"'}, "says 'there'"),
    ],
    good={
        "README.md": "x.\n" * 150,
        TROUBLE: "| `no ... there` | x |",
        "a.cpp": '"no {} the"\n    "re"',
        "docs/a.md": f"# A\n\n{words(25)}. {words(20)}!\n\n* {words(20)}\n* {words(20)}\n\n| {words(20)} | {words(20)} |\n"
                     f"`{words(20)}` {words(20)}\n\n    {words(30)}\n\n```sh\n{words(30)}\n```\n"
                     "[B, c](../b.md#c-d-1) [d](../b.md) `tests/lint/docs.py` `--peer` `omni-run time --net=x | cat --help`\n"
                     "`omni-run --net x --epochs 3  # time` `./bootstrap run --epochs 3` `omni-run time -- --epochs 3`\n",
        SITE: f"nav:\n  - A: docs/a.md\n  - B: {TROUBLE}\n  - C: docs/o.md\n",
        "docs/o.md": "[a](a.md) `--net` `--epochs`", "README.md": "[o](docs/o.md)\n" + "x.\n" * 149,
        "b.md": f"# C d\n# C, d!\n{words(30)}\n",
        "perf/peers/compare.py": '"--peer"',
    })
