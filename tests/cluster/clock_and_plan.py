"""What a training takes by the virtual clock, beside what `plan --nodes` foretells for the same nodes: clock_and_plan.py
OMNI_RUN NET BATCH NODES LINKS [MINI-BATCHES]. Both know what `plan` measured of one node: its seconds, and the share of
merged layers. Lists are separated by commas: 1,2,8,32,32+1 and 1gbit:100us,100gbit:2us. Each group trains MINI-BATCHES
(50) after ten that are not measured. The learning rate is so low that no training diverges."""

import json
import os
import subprocess
import sys
import tempfile

SETTLING = 10  # mini-batches of each group


def output_of(words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def machine_of(plan, row):
    node = plan["node"]
    device = {"kind": "node", "count": row["nodes"] - row["serving"], "seconds": {str(node["batch"]): node["seconds"]},
              "merged_share": node["merged_share"]}
    link = {"seconds": plan["link"]["latency_seconds"], "bytes_per_second": plan["link"]["bytes_per_second"]}
    return {"name": "nodes", "devices": [device] + [dict(device, count=1, serves="merged")] * row["serving"], "link": link}


def seconds_by_clock(program, net, batch, plan, row, fc, mini_batches):
    groups = row["groups"]
    with tempfile.TemporaryDirectory() as folder:
        machine, metrics = os.path.join(folder, "machine.json"), os.path.join(folder, "metrics.jsonl")
        with open(machine, "w", encoding="utf-8") as file:
            json.dump(machine_of(plan, row), file)
        how = ["sync"] if groups == 1 else ["async", "--guard", "off", "--groups", str(groups), "--fc", fc]
        output_of([program, "--net", net, "--batch", str(batch), "--data", "synthetic:640", "--arrivals", "virtual",
                   "--machine", machine, "--max-batches", str((SETTLING + mini_batches) * groups), "--no-test", "--display",
                   "1", "-q", "--workers", "1", "--metrics", metrics, "--out", os.path.join(folder, "run"),
                   "--learning-rate", "1e-6", "--strategy"] + how)
        with open(metrics, encoding="utf-8") as file:
            times = [line["simulated_time"] for line in map(json.loads, file) if "simulated_time" in line]
    first = SETTLING * groups
    return (times[-1] - times[first - 1]) / (len(times) - first)


def main():
    program, net, batch, nodes, links = sys.argv[1:6]
    mini_batches = int(sys.argv[6]) if len(sys.argv) > 6 else 50
    worst = 0
    for link in links.split(","):
        for fc in "merged", "replicated":
            plan = json.loads(output_of([program, "plan", "--net", net, "--batch", batch, "--most-groups", "2", "--nodes",
                                         nodes, "--link", link, "--fc", fc, "--workers", "1", "--json", "-q"]))
            for row in plan["nodes"]:
                if "async" not in row["strategies"].split(", ") and (row["groups"] > 1 or fc == "merged"):
                    continue
                seconds = seconds_by_clock(program, net, batch, plan, row, fc, mini_batches)
                ratio = seconds / row["predicted_seconds"]
                worst = max(worst, abs(ratio - 1))
                print(f"{link:15} {fc:10} nodes {row['nodes']:3} ({row['serving']} serves) groups {row['groups']:3} plan "
                      f"{1e3 * row['predicted_seconds']:9.4f} ms clock {1e3 * seconds:9.4f} ms ratio {ratio:.3f}", flush=True)
    print(f"largest difference {100 * worst:.1f} %")


main()
