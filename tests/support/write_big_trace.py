#!/usr/bin/env python3
"""Writes a trace of many tasks, to measure omni-perf with: write_big_trace.py FOLDER TASKS WORKERS."""

import os
import random
import sys

ITERATION = 200  # tasks
TENSORS = 400
CODELETS = ["conv_forward", "conv_backward", "pool_forward", "connected_forward", "sgd_update"]


def main(folder, tasks, workers):
    random.seed(1)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "rank-0.jsonl"), "w", encoding="ascii") as out:
        write(out, tasks, workers)


def write(out, tasks, workers):
    out.write('{"omnivore_trace":1,"rank":0,"started":0,"host":"h","command":"write_big_trace","starpu":"",'
              '"scheduler":"","net":"big","batch":64}\n')
    for worker in range(workers):
        out.write(f'{{"worker":{worker},"name":"CPU {worker}","kind":"CPU","node":0}}\n')
    for codelet, name in enumerate(CODELETS):
        out.write(f'{{"codelet":{codelet},"name":"{name}","color":0,"implementations":["a","b"]}}\n')
    for layer in range(20):
        out.write(f'{{"layer":{layer},"type":"convolutional","detail":"{layer}"}}\n')
    for data in range(TENSORS):
        out.write(f'{{"data":{data},"name":"tensor {data}","bytes":{data * 1000}}}\n')
    free = [0] * workers
    for task in range(tasks):
        iteration, step = divmod(task, ITERATION)
        if step == 0:
            out.write(f'{{"iteration":{iteration},"at":{min(free)}}}\n')
            out.write(f'{{"counter":"feed.decoded","at":{min(free)},"value":{random.randrange(4)}}}\n')
        worker = random.randrange(workers)
        pop = free[worker] + random.randrange(2000)
        start, length = pop + 700, random.randrange(50000, 60000)
        end = start + length
        free[worker] = end + 300
        submitted = max(0, pop - 3000000)
        times = [submitted, max(submitted, pop - random.randrange(9000)), pop, pop + 200, pop + 300, pop + 500,
                 start, end, end + 300]
        accesses = [random.randrange(TENSORS) for _ in range(3)]
        out.write(f'{{"task":{task},"codelet":{task % len(CODELETS)},"impl":{task % 2},"worker":{worker},'
                  f'"layer":{step % 20},"slice":{step % 4},"group":0,"iteration":{iteration},'
                  f'"times":[{",".join(map(str, times))}],"predicted":{length + random.randrange(900)},'
                  f'"flops":51000000,"bytes":90112,"reads":[{accesses[0]},{accesses[1]},{accesses[2]}],'
                  f'"writes":[{step}]}}\n')
    out.write(f'{{"end":{max(free)},"tasks":{tasks}}}\n')


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
