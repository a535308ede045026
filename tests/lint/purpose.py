"""Every source file opens with what it is for. One that opens with the header it implements or tests
leaves that to the header."""

import os
import re

from source_tree import is_cpp, is_source, run

MIN_WORDS = 3


def opening_comment(path, text):
    """The words of the comment at the top; of a script, below its #! line."""
    lines = text.splitlines()
    if lines and lines[0].startswith("#!"):
        lines = lines[1:]
    if path.endswith(".py"):
        match = re.match(r'\s*"""(.*?)"""', "\n".join(lines), re.S)
        return match.group(1).split() if match else []
    mark, words = "//" if is_cpp(path) else "#", []
    for line in lines:
        if not line.startswith(mark):
            break
        words += re.findall(r"\w[\w.'-]*", line)
    return words


def own_header(path, text):
    match = re.match(r'#include "(.*)"\n', text)
    stem = re.sub(r"_test$", "", os.path.splitext(os.path.basename(path))[0])
    if match and is_cpp(path) and os.path.basename(match.group(1)) == stem + ".hpp":
        return match.group(1)
    return None


def check(files):
    return [f"{path}: does not open with a comment on its purpose"
            for path, text in files.items()
            if is_source(path, text) and len(opening_comment(path, text)) < MIN_WORDS
            and own_header(path, text) not in files]


PURPOSE = "// Adds two and two together.\n"
run(check,
    bad=[
        ({"a.hpp": "#pragma once\n"}, "a.hpp: does not open"),
        ({"a.hpp": "\n" + PURPOSE}, "a.hpp"),
        ({"a.cpp": "// a.cpp\n"}, "a.cpp"),
        ({"a.cpp": "//=============\n//\n//-----\n"}, "a.cpp"),
        ({"x/a.cpp": '#include "x/a.hpp"\n'}, "x/a.cpp"),
        ({"x/a.cpp": '#include "x/b.hpp"\n', "x/b.hpp": PURPOSE}, "x/a.cpp"),
        ({"a.py": "import os\n"}, "a.py"),
        ({"a.sh": "#!/bin/sh\nset -eu\n"}, "a.sh"),
        ({"run": "#!/usr/bin/env bash\n# x\nset -eu\n"}, "run"),
        ({"a.cu": ""}, "a.cu"),
    ],
    good={
        "x/a.hpp": PURPOSE, "x/a.cpp": '#include "x/a.hpp"\n', "tests/a_test.cpp": '#include "x/a.hpp"\n',
        "b.cu": PURPOSE, "a.py": '#!/usr/bin/python3\n"""Adds two and two."""\n',
        "a.sh": "#!/bin/sh\n# Adds two and two.\n", "run": "#!/bin/sh\n# Runs all of it.\n",
        "data.txt": "1\n",
    })
