"""What must not appear: shells and bare threads started from code, unbounded readers, products of floats with bits cut off, names of package hosts, and notes to oneself."""

import re

from source_tree import is_cpp, is_shell, matches, run

# Comments and literals of C++, of which only the line ends are kept.
NOT_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"'
                      r"|(?<![0-9a-fA-F])'(?:\\.|[^'\\\n])*'", re.S)
CPP_SHELL = r"(?<![\w:.>])(?:std::|::)?(?:system|popen)\s*\("
# An exception that leaves a bare thread ends the process without a word.
THREAD = r"\bstd::(?:j?thread\b(?!\s*::|>)|async\b)|\bpthread_create\b|\bthrd_create\b"
MAY_START = re.compile(r"runtime/threads\.cpp|tests/")
# Files are read with bounds. The kernel's have some; of a page only the head is read.
STREAM = r"\bstd::(?:basic_|w)?i?fstream\b"
MAY_STREAM = re.compile(r"runtime/(?:own_command|memory/memory_limits)\.cpp|apps/omni-perf/report_commands\.cpp|tests/")
# All that users see goes through runtime/log.cpp, which escapes what a terminal would obey.
PRINTS = r"\bfmt::v?print\s*\(|\bf?put(?:s|c|char)\s*\(|\bv?printf\s*\(|\bf(?:write|printf)\s*\([^;]*\bstd(?:out|err)\b|\bstd::c(?:out|err|log)\b"
MAY_PRINT = re.compile(r"runtime/log\.cpp|apps/omni-run/progress\.cpp|tests/")
PYTHON_SHELL = r"\bos\.(?:system|popen)\b|\bshell\s*=\s*True\b"
# Hosts that serve packages or images, known by one of their labels.
PACKAGE_HOST = (r"(?i)\b(?:[a-z0-9-]+\.)*(?:archive|conda|crates|deb|docker|download|ftp|gcr|ghcr|hub|index"
                r"|mirrors?|npm|npmjs|packages|pkg|ppa|pypi|pythonhosted|quay|registry|repo|security)\d*"
                r"(?:\.[a-z0-9-]+)*\.(?:com|dev|edu|io|net|org)\b")
URL = r"\b(?:https?|ftp)://[\w-]+\.[\w.-]+"
# cuBLAS cuts off bits of floats with it: codelets/cuda/rounded_factors.hpp.
CUTS_BITS = r"\bCUBLAS_COMPUTE_32F_FAST_16B?F\b"
NOTE = r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b"


def code_of(text):
    return NOT_CODE.sub(lambda match: " " + "\n" * match.group(0).count("\n"), text)


def check(files):
    problems = []
    for path, text in files.items():
        if is_cpp(path) and not path.startswith("tests/"):
            problems += matches(CUTS_BITS, path, code_of(text), "multiplies floats whose bits are cut off")
        if is_cpp(path):
            problems += matches(CPP_SHELL, path, code_of(text), "starts a shell")
            if not MAY_START.match(path):
                problems += matches(THREAD, path, code_of(text), "starts a thread past runtime/threads.hpp")
            if not MAY_STREAM.match(path):
                problems += matches(STREAM, path, code_of(text), "reads past runtime/files.hpp")
            if not MAY_PRINT.match(path):
                problems += matches(PRINTS, path, code_of(text), "prints past runtime/log.hpp")
        if path.endswith(".py"):
            problems += matches(PYTHON_SHELL, path, text, "starts a shell")
        if is_shell(path, text) or path.endswith((".cmake", "CMakeLists.txt")):
            problems += matches(URL, path, text, "fetches from a fixed place")
        problems += matches(PACKAGE_HOST, path, text, "names a package host")
        problems += matches(NOTE, path, text, "finish it or open an issue")
    return problems


# Written in pieces, or they would be found here.
def host(*labels):
    return ".".join(labels)


run(check,
    bad=[
        ({"a.cpp": '// x\nint i = system("ls");'}, "a.cpp:2: starts a shell"),
        ({"a.hpp": 'std::system(text);'}, "starts a shell"),
        ({"a.cu": '/* x\n*/ FILE* f = ::popen (text, "r");'}, "a.cu:2: starts a shell"),
        ({"a.cpp": 'int million = 1\'000\'000; system("a");'}, "starts a shell"),
        ({"a.cpp": "\nstd::thread([] { work(); }).detach();"}, "a.cpp:2: starts a thread"),
        ({"a.hpp": "std::jthread own(work);"}, "starts a thread"),
        ({"a.cpp": "auto f = std::async(work);"}, "starts a thread"),
        ({"a.cpp": "::pthread_create(&a, nullptr, b, c);"}, "starts a thread"),
        ({"a.cpp": "std::ifstream lines(file);"}, "a.cpp:1: reads past"),
        ({"a.cpp": 'fmt::print("x");'}, "a.cpp:1: prints past"),
        ({"apps/a.cpp": "std::cout << name;"}, "apps/a.cpp:1: prints past"),
        ({"a.hpp": "std::fputs(text, stderr);"}, "prints past"),
        ({"a.hpp": "std::fwrite(a, 1, 2, stdout);"}, "prints past"),
        ({"codelets/a.hpp": "\nreturn CUBLAS_COMPUTE_32F_FAST_16BF;"}, "codelets/a.hpp:2: multiplies floats"),
        ({"a.py": "import os\nos." + "system('ls')"}, "a.py:2: starts a shell"),
        ({"a.py": "run(text, shell=" + "True)"}, "starts a shell"),
        ({"a.sh": "curl https:/" + "/example.invalid/x"}, "fetches from a fixed place"),
        ({"bootstrap": "#!/bin/sh\nx=http:/" + "/10.0.0.1/"}, "bootstrap:2: fetches"),
        ({"README.md": host("deb", "example", "org")}, "README.md:1: names a package host"),
        ({"a.cfg": host("ftp2", "de", "example", "org")}, "names a package host"),
        ({"a.cpp": "// from " + host("pypi", "org")}, "names a package host"),
        ({"Dockerfile": "FROM " + host("registry", "hub", "example", "com") + "/x"}, "names a package host"),
        ({"a.cpp": "// TO" + "DO: later"}, "finish it"),
        ({"a.md": "\nFIX" + "ME"}, "a.md:2: finish it"),
    ],
    good={
        "tests/played_gpu/a.cpp": "case CUBLAS_COMPUTE_32F_FAST_16BF: return 7;",
        "runtime/log.cpp": "std::fwrite(a, 1, 2, stderr);",
        "tests/bench/a.cpp": 'fmt::print("x");',
        "runtime/threads.cpp": "std::thread(work).detach();",
        "runtime/own_command.cpp": 'std::ifstream file("/proc/self/cmdline");',
        "c.cpp": "std::istringstream lines(text); std::thread::hardware_concurrency(); std::this_thread::sleep_for(a);",
        "b.cpp": 'std::fprintf(file, "x"); std::fflush(stdout); std::snprintf(a, 2, "x"); std::fwrite(a, 1, 2, file);',
        "a.cpp": '// system("a")\nauto x = "popen(b)"; file.system(1); os::system(2); R"(system(3))";'
                 "file_system(4); int system; std::filesystem::path p; // https://example.org/paper",
        "a.py": "subprocess.run(['ls'])",
        "a.sh": "mktemp -d omnivore-XXXXXX # the mirror of the machine, packages.list, index.html",
    })
