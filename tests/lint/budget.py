"""How many lines of code the product may have, in each room and together: what is added must make room. Code is what
is left without blank lines, comments, includes, namespaces and lone braces, so that merging files gains nothing."""

from collections import Counter
import re

from source_tree import is_cpp, run

# An issue that adds a capability says how many lines it needs. On 2026-11-28 there were 32,269 in all, and for the same
# things there are to be 31,500. Own images, Slurm, resumes and refusals took 2,575 more, the cost model 900, patience and
# the best checkpoint 100. The texts of --help, 244 lines, were no code before. Pilots, plans, data formats, options
# and descriptions of nets as data took 950 that are still to be saved. Ways back in checkpoints, the sweep and returns of
# --auto, elastic without a sum above 1 and options that strategies declare took 560. Ensembles took 2,830: 260 for the
# shared stream, 480 for devices by speed, 450 for sweeps and joint predictions, 1,560 for commands and their files. What
# a strategy names of async, and dead layers under the guard, took 50. The reader of Caffe's nets and solvers took 1,520. What a
# review found in pilots took 60. Shares of the rate that failed, which the guard remembers, took 60. Tournaments and
# shared test images took 330, ensembles over ranks 720, their page of curves 35. Caffe's parameters, snapshots, LMDBs,
# BatchNorm, solvers and `convert` took 1,655. Records of ensembles that fail, and damaged images that count once over
# ranks, took 180. Sweeps by a Parzen estimator took 340. Making LMDBs took 360. Clipped gradients took 192. Caffe's log and
# snapshots took 130. The command that trains was a class in six files; its parts with headers of their own took 99. What a
# review of Caffe's reader found took 20. Slopes, powers, products, slices, hinge losses and oblong windows took 560,
# average_loss 10. Waves over ranks took 43. Trees of sums took 75. Contributions that are rounded took 6. Beats of
# ranks, ends at the start, and tests of all messages at once took 159. Staging that leaves no copies took 26. Comparing
# the contents of samples took 71. Links that are measured until medians agree took 45. Sums of more than 15 slices took
# 2. Traces of members took 29, --prepare-only 96, traces of Slurm's arrays 9, members that ranks get by their work 32.
# A guard that leaves parameters which a lower share does not mend took 16.
# Members that move between ranks, several for one member, took 464: 175 for the plan of places, 250 for phases.
# Coded messages between ranks took 420: 130 for codelets, 250 for what messages leave out, also in checkpoints, 40 for
# --send. Meetings about fragments took 230.
# Writers of prototxt and cfg, with the comparison of nets, took 780; several losses, maxima, curves, fillers, states of
# nets and the rest of Caffe's layers 400. What reviews found in both took 91.
# Ignored labels, sums of losses, each loss in Caffe's log, softmax over pixels, stages of the command line, and what a
# converted net keeps took 460.
# Losses against targets, several inputs and nets without classes took 811: 110 for the codelet, 190 for Caffe's reader, 60 for
# sections of a cfg, 110 for writers and comparison, 150 for joined data.
# --survive took 730: 700 for keepers, rounds and the start of MPI without a launcher.
# Shares by speed took 313, plan --node-speeds 47, heterogeneous jobs and sweeps of Slurm 180.
LINES = {"runtime": 10_180, "codelets": 9_138, "layers": 8_488, "scheduling": 11_554, "apps": 10_453, "perf": 3_150}
IN_ALL = 52_962

LITERAL = re.compile(r'R"(\w*)\((?:.|\n)*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'')
COMMENT = re.compile(r"//[^\n]*|/\*(?:.|\n)*?\*/")
TOKEN = re.compile(f"(?P<literal>{LITERAL.pattern.replace('1', '2')})|(?P<comment>{COMMENT.pattern})")
NO_CODE = re.compile(r"[\s{}();,]*|#\s*(include\b.*|pragma once)|(inline )?namespace\b[\w: ]*\{?\}?|using namespace .*")


def code_lines(text):
    kept = TOKEN.sub(lambda found: found[0] if found["literal"] else "\n" * found[0].count("\n"), text)
    return sum(not NO_CODE.fullmatch(line) for line in kept.splitlines())


def check(files):
    rooms = Counter()
    for path, text in files.items():
        room = path.split("/")[0]
        if room in LINES and is_cpp(path):
            rooms[room] += code_lines(text)
    problems = [f"{room}/: {count} lines of code, its budget is {LINES[room]}" for room, count in sorted(rooms.items())
                if count > LINES[room]]
    if not problems and rooms.total() > IN_ALL:
        problems.append(f"product code: {rooms.total()} lines of code, the budget is {IN_ALL}")
    return problems


def lines(count):
    return "x;\n" * count


NONE = '#pragma once\n#include "a.hpp"\n\n/* of\n two lines */\nnamespace omni {\nnamespace {\n{\n});\n}  // namespace\n}\n'

assert code_lines(NONE) == 0
assert code_lines('a = R"(\n// text\n\n)";  // three lines and an empty one\nb = "/*";\nc = \'"\';\n#define D\n') == 6

run(check,
    bad=[({"layers/types/a.cpp": lines(LINES["layers"] + 1)}, f"layers/: {LINES['layers'] + 1} lines"),
         ({f"{room}/a.cpp": lines(most) for room, most in LINES.items()}, "product code: ")],
    good={f"{room}/a.cu": lines(most * IN_ALL // sum(LINES.values())) + 1000 * NONE for room, most in LINES.items()}
    | {"tests/unit/a.cpp": lines(100_000), "apps/nets/a.cfg": lines(20_000), "perf/compare": lines(20_000)})
