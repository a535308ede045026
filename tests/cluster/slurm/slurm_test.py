"""Trainings as jobs of a private Slurm with four nodes: every template, requeues after preemption, the end of the time
and the crash of a node, an array of seeds, a sweep, a heterogeneous job, a requeue with more nodes, a killed rank. Called
with the path of omni-run; about five minutes on two cores. Exit 77: there can be no Slurm here."""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from private_slurm import PrivateSlurm, missing

OMNI_RUN = os.path.abspath(sys.argv.pop(1))
TEMPLATES = os.path.join(os.path.dirname(os.path.dirname(OMNI_RUN)), "share", "omnivore", "slurm")
NET = ["--net", "lenet", "--data", "synthetic:640:10", "--workers", "1", "--batch", "32", "--gpus", "none", "--no-test"]
FIXED = [*NET, "--deterministic", "--slice", "16"]


def read(path):
    with open(path, "rb") as file:
        return file.read()


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = tempfile.TemporaryDirectory()
        cls.folder = os.path.join(cls.place.name, "jobs")
        cls.private = os.path.join(cls.place.name, "slurm")
        os.chmod(cls.place.name, 0o755)  # munged asks for it
        os.mkdir(cls.folder)
        os.mkdir(cls.private)
        cls.slurm = PrivateSlurm(cls.private, nodes=4, gpus=2)
        cls.slurm.environment["PATH"] += ":" + os.path.dirname(OMNI_RUN)
        cls.slurm.environment["STARPU_HOME"] = cls.place.name
        cls.slurm.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.slurm.__exit__()
        cls.place.cleanup()

    def sbatch(self, *words):
        return self.slurm.command("sbatch", "--parsable", *words, cwd=self.folder).strip()

    def template(self, name):
        return os.path.join(TEMPLATES, f"{name}.sbatch")

    def output(self, job, name="omnivore"):
        path = os.path.join(self.folder, f"{name}-{job}.out")
        return read(path).decode() if os.path.exists(path) else ""

    def await_text(self, job, text):
        self.slurm.wait_until(lambda: text in self.output(job), f"{text} does not come: {job}")

    def expect(self, job, state="COMPLETED", **names):
        facts = self.slurm.wait_for(job)
        self.assertEqual(facts["JobState"], state, f"{facts}\n{self.output(job, **names)[-3000:]}")
        return facts

    def here(self, *words):
        """The same program on this machine, outside Slurm."""
        return subprocess.run([OMNI_RUN, *words], cwd=self.folder, check=True, capture_output=True, text=True,
                              env={**os.environ, "STARPU_HOME": self.place.name})

    def test_every_template_runs(self):
        names = sorted(each.removesuffix(".sbatch") for each in os.listdir(TEMPLATES))
        self.assertEqual(names, ["array", "cpu", "ensemble", "gpu", "nodes", "requeue", "trace"])
        jobs = {}
        for name in names:
            more = [] if name == "trace" else ["--max-batches", "20"]
            words = [self.template(name), *NET, *more]
            self.slurm.command("sbatch", "--test-only", *words, cwd=self.folder)
            jobs[name] = self.sbatch(*words)
        for name, job in jobs.items():
            for each in [f"{job}_{task}" for task in range(4)] if name == "array" else [job]:
                with self.subTest(each=f"{name} {each}"):
                    self.expect(each, name="omnivore-trace" if name == "trace" else "omnivore")
        rates = {re.search(r"([\d.]+) rate", self.output(f"{jobs['array']}_{task}"))[1] for task in range(4)}
        self.assertEqual(len(rates), 4)
        members = os.path.join(self.folder, "omni-runs", jobs["ensemble"])
        self.assertEqual(len({read(f"{members}/{seed}/weights") for seed in range(1, 5)}), 4)
        self.assertIn("2 ranks share a mini-batch", self.output(jobs["nodes"]))
        self.assertTrue(os.path.exists(os.path.join(self.folder, "omni-runs", f"{jobs['trace']}.html")))

    def test_a_command_becomes_its_job(self):
        words = ["--nodes", "2", "--job-name=own", "--gpus=4", "--time", "5", "--", *FIXED, "--max-batches", "20",
                 "--save-weights", "of job's"]
        script = self.here("slurm", *words).stdout
        self.assertIn("#SBATCH --nodes=2\n", script)
        with open(os.path.join(self.folder, "own.sbatch"), "w", encoding="utf-8") as file:
            file.write(script)
        # Wherever it is submitted, it starts where it was written.
        job = self.slurm.command("sbatch", "--parsable", os.path.join(self.folder, "own.sbatch"), cwd="/").strip()
        self.expect(job, name="own")
        self.assertIn(f"Slurm job {job} on node[", self.output(job, "own"))
        self.here(*FIXED, "--max-batches", "20", "--save-weights", "outside")
        self.assertEqual(read(f"{self.folder}/of job's"), read(f"{self.folder}/outside"))

    def test_an_array_has_its_own_seeds_and_folders(self):
        with open(os.path.join(self.folder, "seeds.sbatch"), "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\nsrun --cpu-bind=none omni-run \"$@\" --save-weights weights$SLURM_ARRAY_TASK_ID\n")
        job = self.sbatch("--array=1-4", "-o", "omnivore-%A_%a.out", "seeds.sbatch", *FIXED, "--max-batches", "20",
                          "--resume", "auto")
        for task in range(1, 5):
            self.expect(f"{job}_{task}")
            self.here(*FIXED, "--max-batches", "20", "--seed", str(task), "--save-weights", "outside")
            self.assertEqual(read(f"{self.folder}/weights{task}"), read(f"{self.folder}/outside"))
            self.assertTrue(os.path.isdir(f"{self.folder}/omni-runs/lenet-task{task}"))

    def test_a_stopped_task_requeues_itself_alone(self):
        path = os.path.join(self.folder, "tasks.sbatch")
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.here("slurm", "--array", "1-2%1", "--", *FIXED, "--max-batches", "2000", "--display", "100").stdout)
        job = self.sbatch(path)
        # The number of the last task's job is that of the array, too.
        self.expect(f"{job}_1")
        self.await_text(f"{job}_2", "\n100, ")
        self.slurm.command("scancel", "--signal=USR2", f"{job}_2")
        self.assertEqual(self.expect(f"{job}_2")["Restarts"], "1")
        self.assertEqual(self.expect(f"{job}_1")["Restarts"], "0")

    def test_a_stopped_ensemble_goes_on(self):
        """Tasks of an array take members apart, and one goes on without the others. Ranks of a job go on together."""
        length = ["--max-batches", "400", "--seed", "1", "--data-seed", "1"]
        outside = []
        for seed in ("1", "2", "3", "4"):
            self.here(*FIXED, *length[:2], "--seed", seed, *length[4:], "--save-weights", "outside")
            outside.append(read(f"{self.folder}/outside"))
        for run, options, start, job_name in (
                ("by-task", ["--array=1-2"], "srun", "${SLURM_ARRAY_JOB_ID}_$SLURM_ARRAY_TASK_ID"),
                ("by-rank", ["--nodes=2", "--ntasks-per-node=1"], "srun --mpi=pmi2 -K1", "$SLURM_JOB_ID")):
            with self.subTest(run):
                with open(os.path.join(self.folder, f"{run}.sbatch"), "w", encoding="utf-8") as file:
                    file.write("#!/bin/bash\n#SBATCH --requeue\n#SBATCH --open-mode=append\ncode=0\n"
                               f"{start} --cpu-bind=none omni-run ensemble \"$@\" || code=$?\n"
                               f"if [ \"$code\" = 75 ]; then scontrol requeue \"{job_name}\"; fi\nexit \"$code\"\n")
                job = self.sbatch(*options, f"{run}.sbatch", "--net", "lenet:4", *FIXED[2:], *length, "--out", run,
                                  "--checkpoint-every", "25", "--resume", "auto")
                stopped, others = (f"{job}_2", [f"{job}_1"]) if run == "by-task" else (job, [])
                saved = os.path.join(self.folder, run, "lenet-2")
                self.slurm.wait_until(lambda: os.path.isdir(saved) and any(name.startswith("save-") for name in os.listdir(saved)),
                                      f"nothing is saved: {job}")
                self.slurm.command("scancel", "--signal=USR2", stopped)
                self.assertEqual(self.expect(stopped)["Restarts"], "1")
                for each in others:
                    self.assertEqual(self.expect(each)["Restarts"], "0")
                for number, weights in enumerate(outside, 1):
                    self.assertEqual(read(f"{self.folder}/{run}/lenet-{number}/net.weights"), weights)

    def test_an_array_of_rates_goes_on_with_the_next_seed(self):
        job = self.sbatch("--array=1,5", self.template("array"), *FIXED, "--max-batches", "20")
        weights = []
        for task, seed in ((1, 1), (5, 2)):
            self.expect(f"{job}_{task}")
            self.here(*FIXED, "--max-batches", "20", "--seed", str(seed), "--learning-rate", "0.01", "--save-weights", "outside")
            weights.append(read(f"{self.folder}/omni-runs/{job}/{task}/weights"))
            self.assertEqual(weights[-1], read(f"{self.folder}/outside"))
            self.assertTrue(os.path.exists(f"{self.folder}/omni-runs/{job}/{task}/metrics.jsonl"))
        self.assertNotEqual(*weights)

    def test_sbatch_takes_what_is_written_and_refuses_what_is_refused(self):
        path = os.path.join(self.folder, "checked.sbatch")
        for option, value, good in (
                *(("--time", each, True) for each in ("90", "10:30", "1:30:00", "1-12", "1-0:30", "1-1:01:00", "UNLIMITED")),
                *(("--time", each, False) for each in ("2hours", "1:2:3:4", "1.5")),
                ("--nodes", "2-4", True), ("--nodes", "abc", False), ("--nodes", "4-2", False),
                *(("--array", each, True) for each in ("0-7", "1,3,5-7", "0-15:4", "0-15%4")),
                *(("--array", each, False) for each in ("8-1", "a", "1-8:0")),
                ("--mem", "500", True), ("--mem", "1M", True), ("--mem", "much", False),
                ("--gpus", "2", True), ("--gpus", "all", False), ("--gpus-per-node", "2", True),
                ("--gres", "gpu:2", True), ("--cpus-per-task", "2", True), ("--cpus-per-task", "some", False),
                ("--job-name", "größer", True)):
            with self.subTest(option=option, value=value):
                ours = subprocess.run([OMNI_RUN, "slurm", option, value, "--", *NET], text=True, capture_output=True, check=False,
                                      cwd=self.folder)
                self.assertEqual(ours.returncode, 0 if good else 2, ours.stderr)
                with open(path, "w", encoding="utf-8") as file:
                    file.write(ours.stdout if good else f"#!/bin/bash\n#SBATCH {option}={value}\ntrue\n")
                theirs = subprocess.run(["sbatch", "--test-only", path], text=True, capture_output=True, check=False,
                                        cwd=self.folder, env=self.slurm.environment)
                self.assertEqual(theirs.returncode == 0, good, theirs.stderr)

    def test_requeued_jobs_end_as_undisturbed_ones(self):
        # Long enough for all that happens, however fast this machine is.
        said = self.here(*FIXED, "--max-batches", "1000", "--display", "1000").stderr
        iterations = int(65 * float(re.search(r"([\d.]+) images/s", said)[1]) / 32)

        def disturbed(template, name, *more):
            return self.sbatch("--requeue", *more, self.template(template), *FIXED, "--max-batches", str(iterations),
                               "--checkpoint-every", "500", "--display", "100", "--metrics", f"{name}.metrics",
                               "--save-weights", f"{name}.weights")
        jobs = {"late": disturbed("requeue", "late", "--time=1", "--nodelist=node1"),
                "displaced": disturbed("requeue", "displaced", "--nodelist=node2"),
                "crashed": disturbed("nodes", "crashed", "--nodelist=node[3-4]")}
        for name in ("displaced", "crashed"):
            self.await_text(jobs[name], "\n300, ")
        self.slurm.crash("node4")
        self.sbatch("-p", "high", "--nodelist=node2", "--exclusive", "--wrap", "sleep 1")
        self.slurm.wait_until(lambda: "node4" in self.slurm.command("sinfo", "-h", "-t", "down", "-o", "%N"),
                              "nobody misses node4")
        self.slurm.start_node("node4")
        self.here(*FIXED, "--max-batches", str(iterations), "--save-weights", "undisturbed")
        for name, job in jobs.items():
            with self.subTest(name=name):
                facts = self.expect(job)
                self.assertNotEqual(facts["Restarts"], "0")
                said = self.output(job)
                self.assertRegex(said, "restart [1-9]")
                if name != "crashed":
                    self.assertIn("stopped after iteration", said)
                self.assertEqual(read(f"{self.folder}/{name}.weights"), read(f"{self.folder}/undisturbed"))
                lines = read(f"{self.folder}/{name}.metrics").decode().splitlines()
                done = [int(found[1]) for line in lines if (found := re.match(r'\{"iteration":(\d+),"epoch"', line))]
                self.assertEqual(done, sorted(set(done)))
                self.assertRegex("".join(lines), '"slurm_restarts":[1-9]')

    def script(self, name, *words):
        with open(os.path.join(self.folder, f"{name}.sbatch"), "w", encoding="utf-8") as file:
            file.write(self.here("slurm", f"--job-name={name}", *words).stdout)
        return f"{name}.sbatch"

    def stop_at(self, job, name, text):
        self.slurm.wait_until(lambda: text in self.output(job, name), f"{text} does not come: {job}")
        self.slurm.command("scancel", "--signal=USR2", job)

    def test_a_requeued_job_goes_on_with_more_nodes(self):
        words = [*NET, "--deterministic", "--slice", "8", "--max-batches", "1000", "--display", "20"]
        held = self.sbatch("--nodelist=node[3-4]", "--exclusive", "--wrap", "sleep 1000")
        self.slurm.wait_until(lambda: self.slurm.facts(held)["JobState"] == "RUNNING", "node3 and node4 are not held")
        job = self.sbatch(self.script("wider", "--nodes", "2-4", "--", *words))
        self.slurm.wait_until(lambda: "\n60, " in self.output(job, "wider"), f"no iterations: {job}")
        self.slurm.command("scancel", held)
        self.slurm.wait_until(lambda: self.slurm.idle() >= 2, "node3 and node4 are still held")
        self.stop_at(job, "wider", "\n60, ")
        self.assertEqual(self.expect(job, name="wider")["Restarts"], "1")
        said = self.output(job, "wider")
        self.assertIn("2 ranks share a mini-batch", said)
        self.assertIn("4 ranks share a mini-batch", said)
        self.assertRegex(said, "resumed .* at iteration [1-9]")
        self.here(*words, "--save-weights", "outside")
        self.assertEqual(read(f"{self.folder}/omni-runs/{job}/weights"), read(f"{self.folder}/outside"))

    def test_components_of_a_heterogeneous_job_train_together(self):
        words = [*NET, "--deterministic", "--slice", "8", "--max-batches", "1000", "--display", "20"]
        job = self.sbatch(self.script("mixed", "--nodes", "1", ":", "--nodes", "2", "--cpus-per-task", "2", "--",
                                      *words, "--rank-shares", "2:1:1"))
        self.stop_at(job, "mixed", "\n60, ")
        self.slurm.wait_until(lambda: "restart 1" in self.output(job, "mixed"), f"{job} does not go on")
        self.slurm.wait_until(lambda: self.slurm.idle() == 4, f"{job} does not end")
        said = self.output(job, "mixed")
        self.assertRegex(said, rf"Slurm job {job} on node\[\S+\], restart 1")
        self.assertIn("3 ranks share a mini-batch: 16, 8, 8 of 32 images", said)
        self.assertRegex(said, "resumed .* at iteration [1-9]")
        self.here(*words, "--save-weights", "outside")
        self.assertEqual(read(f"{self.folder}/omni-runs/{job}/weights"), read(f"{self.folder}/outside"))

    def test_a_sweep_has_a_task_for_each_setting(self):
        words = [*FIXED, "--max-batches", "20"]
        job = self.sbatch(self.script("swept", "--sweep", "learning_rate=0.01,0.02", "momentum=0.5,0.9", "--", *words))
        for task, (rate, momentum) in enumerate((r, m) for r in ("0.01", "0.02") for m in ("0.5", "0.9")):
            self.expect(f"{job}_{task}", name="swept")
            self.here(*words, "--seed", "1", "--learning-rate", rate, "--momentum", momentum, "--save-weights", "outside")
            self.assertEqual(read(f"{self.folder}/omni-runs/{job}/{task}/weights"), read(f"{self.folder}/outside"))

    def test_a_killed_rank_ends_a_plain_srun(self):
        job = subprocess.Popen(["srun", "--mpi=pmi2", "-N2", "-n2", "-o", "killed.out", "-e", "killed.out", OMNI_RUN, *NET,
                                "--max-batches", "1000000", "--display", "1"], cwd=self.folder,
                               env=self.slurm.environment, stderr=subprocess.DEVNULL)
        path = os.path.join(self.folder, "killed.out")
        self.slurm.wait_until(lambda: os.path.exists(path) and b"\n5, " in read(path), "no iterations")
        for entry in os.listdir("/proc"):
            try:
                if entry.isdigit() and b"SLURM_PROCID=1\0" in read(f"/proc/{entry}/environ") and \
                        os.path.samefile(f"/proc/{entry}/exe", OMNI_RUN):
                    os.kill(int(entry), signal.SIGKILL)
            except OSError:
                pass
        self.assertNotEqual(job.wait(200), 0)
        self.assertRegex(read(path).decode(), r"error: rank 1 on \S+ has ended; the last iteration here was \d+")

    def test_a_training_survives_the_crash_of_a_node(self):
        length = ["--groups", "3", "--learning-rate", "0.002", "--max-batches", "600"]
        words = [*FIXED, *length, "--checkpoint-every", "20", "--display", "20", "--survive", "--patience", "20"]
        script = self.here("slurm", "--nodes", "3", "--job-name=survivor", "--", *words).stdout
        self.assertIn("#SBATCH --no-kill\n", script)
        with open(os.path.join(self.folder, "survivor.sbatch"), "w", encoding="utf-8") as file:
            file.write(script)
        job = self.sbatch("--nodelist=node[1-3]", "survivor.sbatch")
        self.slurm.wait_until(lambda: "\n100, " in self.output(job, "survivor"), "no iterations")
        self.slurm.crash("node2")
        facts = self.expect(job, name="survivor")
        self.slurm.start_node("node2")
        self.assertEqual(facts["Restarts"], "0")
        self.assertIn("2 ranks instead of 3, from iteration ", self.output(job, "survivor"))
        self.here(*FIXED, *length, "--save-weights", "outside")
        self.assertEqual(read(f"{self.folder}/omni-runs/{job}/weights"), read(f"{self.folder}/outside"))

    def test_ranks_without_mpi_are_refused(self):
        done = subprocess.run(["srun", "--mpi=none", "-N2", "-n2", OMNI_RUN, *NET, "--max-batches", "2"], text=True,
                              cwd=self.folder, env=self.slurm.environment, capture_output=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("each would train alone (srun --mpi=pmi2, or one task)", done.stderr)

    def test_gpus_of_a_job_are_those_of_the_step(self):
        said = self.slurm.command("srun", "-N4", "-n4", "--gres=gpu:2", "sh", "-c", "echo $CUDA_VISIBLE_DEVICES")
        self.assertEqual(said, "0,1\n" * 4)
        job = self.sbatch("-N2", "--ntasks-per-node=1", "--gpus-per-node=2", "-o", "gpus-%j.out", "--wrap",
                          "srun sh -c 'echo $CUDA_VISIBLE_DEVICES'")
        self.expect(job, name="gpus")
        self.assertEqual(self.output(job, "gpus"), "0,1\n" * 2)


if __name__ == "__main__":
    if reason := missing():
        print(f"skipped: no private Slurm: {reason}")
        sys.exit(77)
    unittest.main()
