"""Memory, not the rate of instructions, limits our kernels on an H100. Reads the machine code for sm_90 that a program
holds, and compares the instructions of each kernel's main loop with the bytes that the loop loads and stores.
Called with the paths of programs."""

import re
import struct
import sys

from gpu_code_test import KINDS, fat_binaries, section, sections

# An H100 SXM: 132 multiprocessors start 4 instructions of 32 threads a clock, at 1.755 GHz; its memory moves 3.35 TB/s.
BUDGET = 132 * 4 * 32 * 1.755e9 / 3.35e12  # 8.9 instructions of a thread for every byte that it moves

# Memory does not limit these kernels, or they take no time worth the trouble.
EXEMPT = {
    "AnyActivation": "the loop holds a dozen formulas and runs one",
    "4Draw": "draws random numbers",
    "11FoldWeights": "the weights of one layer, some ten thousand",
    "18AddUnfoldedWeights": "the same",
    "6Im2Col": "only where cuDNN does not convolve",
    "6Col2Im": "the same",
}

# Of the low 12 bits of an instruction, which takes 16 bytes (nvdisasm 13.1 agrees).
LOAD, STORE, BRANCH = 0x981, 0x986, 0x947
BYTES = (1, 1, 2, 2, 4, 8, 16)


def moved(low, high):
    return BYTES[high >> 9 & 7] if low & 0xFFF in (LOAD, STORE) else 0


def jump(low, high):
    """From the next instruction, in instructions."""
    far = low >> 34 | (high & 0x3FFFF) << 30
    return ((far - (far >> 47 << 48)) << 8 | low >> 16 & 0xFF) // 4


def main_loop(code):
    """The instructions and bytes of the innermost loop that moves most bytes; without loops, of the whole kernel."""
    each = list(struct.iter_unpack("<QQ", code))
    ends = [(at + 1 + jump(*each[at]), at + 1) for at, (low, _) in enumerate(each) if low & 0xFFF == BRANCH]
    loops = [(first, end) for first, end in ends if first < end - 1]
    found = {loop: sum(moved(*one) for one in each[slice(*loop)]) for loop in loops}
    found = {loop: of for loop, of in found.items() if of > 0}
    inner = {(first, end): of for (first, end), of in found.items()
             if not any(first <= a and b <= end and (a, b) != (first, end) for a, b in found)}
    if not inner:
        return len(each), sum(moved(*one) for one in each)
    (first, end), of = max(inner.items(), key=lambda loop: loop[1])
    return end - first, of


def kernels(program):
    for code in fat_binaries(section(program, ".nv_fatbin")):
        for kind, architecture, binary in code:
            if (KINDS.get(kind), architecture) == ("SASS", 90):
                yield from ((name[6:], text) for name, text in sections(binary) if name.startswith(".text."))


def over_budget(named_code):
    """Of variants that differ only in numbers, such as the values of a load, the best counts: others serve what is left
    over, or channels that cannot be divided."""
    best = {}
    for name, code in named_code:
        count, of = main_loop(code)
        if of > 0 and not any(part in name for part in EXEMPT):
            kind = re.sub(r"L[a-z]\d+E", "L#E", name)
            best[kind] = min(best.get(kind, (count / of, name)), (count / of, name))
    assert best, "no kernel moves anything"
    return len(best), [(each, name) for each, name in best.values() if each > BUDGET]


def prove_that_it_can_fail():
    nothing, load = struct.pack("<QQ", 0x7918, 0), struct.pack("<QQ", LOAD, 4 << 9)
    back = lambda far: struct.pack("<QQ", BRANCH | (-4 * far & 0xFF) << 16 | (-4 * far >> 8 & 0x3FFFFFFF) << 34, 0x3FFFF)
    loop = lambda idle: nothing * 50 + load + nothing * idle + back(idle + 2) + nothing
    assert main_loop(loop(20)) == (22, 4), main_loop(loop(20))
    assert over_budget([("a", loop(30))])[1] == [] and len(over_budget([("a", loop(40))])[1]) == 1
    assert over_budget([("aLi1E", loop(40)), ("aLi8E", loop(9))])[1] == []


def main(programs):
    prove_that_it_can_fail()
    for program in programs:
        count, bad = over_budget(kernels(program))
        for each, name in sorted(bad):
            print(f"{program}: {each:.1f} instructions a byte, {BUDGET:.1f} fit the memory's time: {name}")
        assert not bad, "move more bytes per instruction (see codelets/cuda/map.cuh), or give a reason in EXEMPT"
        print(f"{program}: {count} kinds of kernels, at most {BUDGET:.1f} instructions a byte")


if __name__ == "__main__":
    main(sys.argv[1:])
