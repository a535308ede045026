"""No source file over 400 lines, no folder over 25 source files: what grows past that is two things."""

from collections import Counter
import os

from source_tree import is_source, run

MAX_LINES = 400
MAX_FILES = 25


def check(files):
    problems, folders = [], Counter()
    for path, text in files.items():
        if not is_source(path, text):
            continue
        folders[os.path.dirname(path)] += 1
        if (lines := len(text.splitlines())) > MAX_LINES:
            problems.append(f"{path}: {lines} lines, at most {MAX_LINES}")
    return problems + [f"{folder}/: {count} source files, at most {MAX_FILES}"
                       for folder, count in sorted(folders.items()) if count > MAX_FILES]


def lines(count):
    return "x\n" * count


run(check,
    bad=[({"layers/a.cpp": lines(401)}, "layers/a.cpp: 401 lines, at most 400"),
         ({"bootstrap": "#!/bin/sh\n" + lines(400)}, "bootstrap: 401 lines"),
         ({f"layers/{i}.cpp": "x\n" for i in range(26)}, "layers/: 26 source files, at most 25")],
    good={"layers/a.cpp": lines(400), "apps/nets/long.cfg": lines(1000)}
    | {f"codelets/{i}.cu": "x\n" for i in range(25)} | {f"codelets/more/{i}.cu": "x\n" for i in range(25)}
    | {f"apps/nets/{i}.cfg": "x\n" for i in range(50)})
