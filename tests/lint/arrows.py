"""The rooms of the repository and who may include what: the arrows of the design, as a table."""

import re

from source_tree import is_cpp, run

ROOMS = {"base", "runtime", "codelets", "layers", "scheduling", "policy", "perf", "apps"}
MAY_INCLUDE = {
    "base": {"base"},
    "runtime": {"runtime", "base"},
    "codelets": {"codelets", "runtime", "base"},
    "layers": {"layers", "codelets", "runtime", "base"},
    "scheduling": {"scheduling", "policy", "layers", "codelets", "runtime", "base"},
    "policy": {"policy", "runtime", "base"},
    "perf": {"perf", "base"},
    "apps": ROOMS,
    "tests": ROOMS | {"tests"},
}
# Rooms within scheduling/, from the lowest on. A room includes itself and lower ones, and what is named here.
FLOORS = ["policy", "groups", "strategies", "forecast", "training", "checkpoint", "pilots", "ensemble"]
UPWARDS = {("training", "pilots")}
# Header, where it may be included, said as ...
OUTSIDE = [
    (r"(starpu_)?mpi\.h", r"(runtime/communicator/library|tests/simgrid/smpi)/", "the communicator"),
    (r"starpu(?!_mpi).*", r"(runtime/(tasks|data|cuda|communicator)|codelets|scheduling/policy|tests)/",
     "runtime/{tasks,data,cuda,communicator}, codelets and the policy"),
    (r"cu(dnn|blas|da_runtime).*", r"codelets/.*\.cuh?$|runtime/cuda/|tests/",
     "codelets/*.cu and runtime/cuda"),
    (r"CLI/.*", r"apps/", "apps"),
    (r"google/protobuf/.*|.*\.pb\.h", r"layers/formats/caffe/", "layers/formats/caffe"),
]
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.M)


def room_of(path):
    if path.startswith("scheduling/policy"):
        return "policy"
    if re.match(r"runtime/((trace|memory)/)?[^/]*$", path):
        return "base"  # what knows no StarPU, so that perf may use it
    return path.split("/")[0]


def problem_with(path, mark, header):
    for pattern, where, said in OUTSIDE:
        if re.fullmatch(pattern, header) and not re.match(where, path):
            return f"{header} is only for {said}"
    if mark == "<":
        return None
    room, other = room_of(path), room_of(header)
    if other not in MAY_INCLUDE:
        return f'"{header}": write the path from the root of the repository'
    if other not in MAY_INCLUDE[room]:
        return f"{room} must not include {header}"
    if room == other == "scheduling":
        here, there = path.split("/")[1], header.split("/")[1]
        if here not in FLOORS:
            return f"'{here}' is no room of scheduling/"
        if FLOORS.index(there) > FLOORS.index(here) and (here, there) not in UPWARDS:
            return f"scheduling/{here}/ must not include {header}"
    return None


def check(files):
    problems = []
    for path, text in files.items():
        if not is_cpp(path):
            continue
        if room_of(path) not in MAY_INCLUDE:
            problems.append(f"{path}: '{room_of(path)}' is no room of the design")
            continue
        for match in INCLUDE.finditer(text):
            if problem := problem_with(path, *match.groups()):
                problems.append(f"{path}:{text.count(chr(10), 0, match.start()) + 1}: {problem}")
    return problems


def one(path, *headers):
    return {path: "// A file.\n" + "".join(f"#include {header}\n" for header in headers)}


run(check,
    bad=[
        (one("runtime/a.cpp", '"runtime/tasks/b.hpp"'), "a.cpp:2: base must not include"),
        (one("runtime/trace/a.cpp", '"runtime/data/b.hpp"'), "a.cpp:2: base must not include"),
        (one("runtime/trace/a.cpp", "<starpu.h>"), "starpu.h is only for"),
        (one("runtime/tasks/a.cpp", '"codelets/b.hpp"'), "a.cpp:2: runtime must not include"),
        (one("runtime/data/a.cpp", "<set>", '"layers/b.hpp"'), "a.cpp:3: runtime must not include"),
        (one("codelets/a.cu", '"layers/b.hpp"'), "codelets must not include"),
        (one("layers/formats/a.cpp", '"scheduling/b.hpp"'), "layers must not include"),
        (one("scheduling/a.cpp", '"apps/b.hpp"'), "scheduling must not include"),
        (one("scheduling/policy/a.cpp", '"layers/b.hpp"'), "policy must not include"),
        (one("scheduling/groups/a.cpp", '"scheduling/training/b.hpp"'), "scheduling/groups/ must not include"),
        (one("scheduling/training/a.cpp", '"scheduling/checkpoint/b.hpp"'), "scheduling/training/ must not include"),
        (one("scheduling/checkpoint/a.cpp", '"scheduling/pilots/b.hpp"'), "scheduling/checkpoint/ must not include"),
        (one("scheduling/a.cpp", '"scheduling/groups/b.hpp"'), "'a.cpp' is no room of scheduling/"),
        (one("perf/a.cpp", '"runtime/tasks/b.hpp"'), "perf must not include"),
        (one("apps/a.cpp", '"tests/b.hpp"'), "apps must not include"),
        (one("layers/a.cpp", '"blob.hpp"'), "from the root"),
        (one("layers/a.cpp", "<starpu.h>"), "starpu.h is only for"),
        (one("scheduling/a.cpp", "<starpu_scheduler.h>"), "codelets and the policy"),
        (one("runtime/tasks/session.cpp", "<mpi.h>"), "mpi.h is only for the communicator"),
        (one("codelets/a.cpp", "<starpu_mpi.h>"), "only for the communicator"),
        (one("runtime/communicator/a.cpp", "<mpi.h>"), "only for the communicator"),
        (one("codelets/a.cpp", "<cudnn.h>"), "only for codelets/*.cu"),
        (one("layers/a.cu", "<cublas_v2.h>"), "only for codelets/*.cu"),
        (one("scheduling/a.cpp", "<CLI/CLI.hpp>"), "only for apps"),
        (one("layers/a.cpp", "<google/protobuf/message.h>"), "only for layers/formats/caffe"),
        (one("utils/a.cpp", "<set>"), "'utils' is no room"),
    ],
    good=one("runtime/tasks/a.cpp", "<starpu.h>", '"runtime/b.hpp"')
    | one("perf/trace/a.cpp", '"runtime/trace/b.hpp"', '"runtime/result.hpp"')
    | one("runtime/cuda/worker.cu", "<cublas_v2.h>") | one("runtime/communicator/library/a.cpp", "<mpi.h>")
    | one("codelets/a.cu", "<starpu.h>", "<cudnn.h>", '"runtime/b.hpp"', '"codelets/a.hpp"')
    | one("scheduling/policy/a.cpp", "<starpu_scheduler.h>", '"runtime/b.hpp"')
    | one("scheduling/pilots/x/a.cpp", '"scheduling/groups/b.hpp"', '"scheduling/policy/b.hpp"')
    | one("scheduling/training/a.cpp", '"scheduling/pilots/b.hpp"')
    | one("layers/a.cpp", '"codelets/b.hpp"') | one("apps/a.cpp", "<CLI/CLI.hpp>", '"perf/b.hpp"')
    | one("tests/unit/a.cpp", "<starpu.h>", '"apps/b.hpp"', '"tests/support/c.hpp"'))
