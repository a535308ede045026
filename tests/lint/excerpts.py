"""Code shown in a document is code of the repository: a block ```cpp PATH holds parts of that file, word
for word, in order; a line of three dots stands for what is left out."""

import re

from source_tree import run

BLOCK = re.compile(r"^```\w+ (\S+)\n(.*?)^```$", re.M | re.S)


def words(text):
    return " ".join(text.split())


def check(files):
    problems = []
    for document, text in files.items():
        if not document.endswith(".md"):
            continue
        for path, block in BLOCK.findall(text):
            if path not in files:
                problems.append(f"{document}: shows a part of {path}, which does not exist")
                continue
            rest = words(files[path])
            for part in re.split(r"^\.\.\.$", block, flags=re.M):
                _, found, rest = rest.partition(words(part))
                if not found:
                    problems.append(f"{document}: {path} does not hold (here)\n{part.strip()}")
                    break
    return problems


def shown(code):
    return "Text.\n\n```cpp x/a.cpp\n" + code + "```\n\n```\nno path\n```\n"


CODE = {"x/a.cpp": "int a;\nint b = f(1,\n          2);\nint c;\n"}
run(check,
    bad=[
        ({"A.md": shown("int d;\n")} | CODE, "does not hold (here)\nint d;"),
        ({"A.md": shown("int c;\n...\nint a;\n")} | CODE, "does not hold (here)\nint a;"),
        ({"A.md": shown("int a;\nint c;\n")} | CODE, "does not hold"),
        ({"A.md": shown("int a;\n")}, "x/a.cpp, which does not exist"),
    ],
    good={"A.md": shown("int a;\n...\nint b = f(1, 2);\nint c;\n")} | CODE)
