"""omni-run ensemble: the page of all members' curves, in a real browser where there is one. Called with the path of
omni-run [PICTURE.png]."""

import os
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../support"))
from browser import Browser, missing  # noqa: E402

PROGRAM, PICTURE = sys.argv[1], sys.argv[2:]  # PICTURE: where to put one of the page
PATIENCE = 240  # s


class EnsemblePage(unittest.TestCase):
    def test_curves_of_all_members(self):
        with tempfile.TemporaryDirectory() as folder:
            members, out = os.path.join(folder, "members"), os.path.join(folder, "run")
            with open(members, "w", encoding="utf-8") as file:
                file.write("--net lenet --name first\n--net lenet --seed 2 --name '<script>alert(1)<'\n"
                           "--net lenet --learning-rate 1e30 --name diverges\n")
            done = subprocess.run([PROGRAM, "ensemble", "--members", members, "--data", "synthetic:200", "--batch", "20",
                                   "--max-batches", "12", "--test-every", "4", "--display", "1", "--out", out],
                                  capture_output=True, text=True, check=False, timeout=PATIENCE,
                                  env={**os.environ, "STARPU_HOME": folder, "STARPU_WORKERS_NOBIND": "1"})
            self.assertEqual(done.returncode, 0, done.stderr)
            page = os.path.join(out, "curves.html")
            with open(page, encoding="utf-8") as file:
                self.assertNotIn("<script>alert", file.read())
            if absent := missing():
                print(f"the page was not opened: {', '.join(absent)} not found")
                return
            self.look_at(page)

    def look_at(self, page):
        with Browser(1280, 1000) as browser:
            browser.open("about:blank")
            browser.requests()
            browser.open("file://" + page)
            shown = "const done = arguments[arguments.length - 1]; requestAnimationFrame(() => requestAnimationFrame(() => done(0)));"
            rows = "return [...document.querySelectorAll('#table tbody tr')].map(row => [0, 1].map(k => row.cells[k].textContent))"
            self.assertEqual(browser.run(rows), [["first", "finished"], ["<script>alert(1)<", "finished"],
                                                 ["diverges", "diverged"]])
            charts = "return [...document.querySelectorAll('#curves svg')].map(one => one.querySelectorAll('path').length)"
            for over in ("iterations", "time"):
                browser.run_async(shown)
                drawn = browser.run(charts)
                self.assertEqual(len(drawn), 3, over)
                self.assertTrue(all(count >= 2 for count in drawn), f"{over}: {drawn}")
                browser.click("#curves input[value=seconds]")
            self.assertIn("omni-run ensemble --members", browser.text("#what-ran"))
            self.assertEqual(browser.console(), [])
            self.assertEqual([url for url in browser.requests() if not url.startswith(("file:", "data:"))], [])
            for path in PICTURE:
                with open(path, "wb") as file:
                    file.write(browser.screenshot())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
