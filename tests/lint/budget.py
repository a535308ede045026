"""How many lines the product may have, in each room and together: what is added must make room."""

from collections import Counter

from source_tree import is_cpp, run

# A room that shrinks gives its lines back; an issue that adds a capability says how many it needs. Up to
# 2026-11-28 there were 51,229 in all; what new users stumbled over (own images, Slurm, resumes) took 4,300. The cost
# model took 900 (2026-11-29): links, servers and meetings that wait, where constants stood; refusals to overwrite
# foreign files took 100.
LINES = {"runtime": 12_500, "codelets": 12_500, "layers": 5_360, "scheduling": 12_250, "apps": 9_350, "perf": 4_800}
IN_ALL = 56_700


def check(files):
    rooms = Counter()
    for path, text in files.items():
        room = path.split("/")[0]
        if room in LINES and is_cpp(path):
            rooms[room] += len(text.splitlines())
    problems = [f"{room}/: {count} lines, its budget is {LINES[room]}" for room, count in sorted(rooms.items())
                if count > LINES[room]]
    if not problems and rooms.total() > IN_ALL:
        problems.append(f"product code: {rooms.total()} lines, the budget is {IN_ALL}")
    return problems


def lines(count):
    return "x\n" * count


run(check,
    bad=[({"layers/types/a.cpp": lines(LINES["layers"] + 1)}, f"layers/: {LINES['layers'] + 1} lines"),
         ({f"{room}/a.cpp": lines(most) for room, most in LINES.items()}, "product code: ")],
    good={f"{room}/a.cu": lines(most * IN_ALL // sum(LINES.values())) for room, most in LINES.items()}
    | {"tests/unit/a.cpp": lines(100_000), "apps/nets/a.cfg": lines(20_000), "perf/compare": lines(20_000)})
