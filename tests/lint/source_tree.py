"""What the lints share: the files of this repository, and a run that first proves that the lint can fail."""

import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

CPP = (".cpp", ".hpp", ".cu", ".cuh", ".h")
SCRIPTS = (".py", ".sh")


def read_tree(root=ROOT):
    """{path from the root: text} of everything but build folders and hidden folders; .ci is ours."""
    files = {}
    for folder, folders, names in os.walk(root):
        top = folder == root
        folders[:] = [name for name in sorted(folders)
                      if (top and name == ".ci") or
                      not (name.startswith(".") or name == "__pycache__" or
                           (top and name.startswith("build")))]
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.islink(path):
                continue
            with open(path, "rb") as file:
                data = file.read()
            if b"\0" not in data:
                files[os.path.relpath(path, root)] = data.decode("utf-8", "replace")
    return files


def is_cpp(path):
    return path.endswith(CPP)


def is_shell(path, text):
    return path.endswith(".sh") or re.match(r"#!.*\b(ba|da)?sh\b", text) is not None


def is_source(path, text):
    return is_cpp(path) or path.endswith(SCRIPTS) or text.startswith("#!")


def matches(pattern, path, text, problem):
    """path:line: problem 'what matched', for every match."""
    return [f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {problem}: '{match.group(0)}'"
            for match in re.finditer(pattern, text)]


def run(check, bad, good):
    """check(files) gives a list of problems. Every entry of `bad` is (files, text): exactly one problem,
    which contains the text. `good` are files without one. Then the repository itself."""
    for files, expected in bad:
        problems = check(files)
        if len(problems) != 1 or expected not in problems[0]:
            sys.exit(f"this lint is broken: {files} should give '{expected}', gives {problems}")
    if problems := check(good):
        sys.exit(f"this lint is broken: it refuses what is right: {problems}")
    files = read_tree()
    if len(files) < 50:
        sys.exit(f"this lint is broken: only {len(files)} files found in {ROOT}")
    if problems := check(files):
        sys.exit("\n".join(problems))
    print(f"{len(files)} files, nothing to say")
