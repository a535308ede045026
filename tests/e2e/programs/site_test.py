"""docs/make-site builds a site in which every link leads to a page, file or heading of the site. Needs no
network; ends with 77 where MkDocs is not installed."""

import os
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def dead_links(folder):
    pages = {}
    for place, _, names in os.walk(folder):
        for name in names:
            if name.endswith(".html") and name != "404.html":  # which is served from anywhere
                with open(os.path.join(place, name), encoding="utf-8") as file:
                    pages[os.path.join(place, name)] = file.read()
    assert len(pages) > 20, sorted(pages)
    for path, text in pages.items():
        for link in re.findall(r'(?:href|src)="([^"]+)"', text):
            target, _, anchor = link.partition("#")
            there = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if re.match(r"[a-z]+:|//", link):
                if "mkdocs.org" not in link:
                    yield f"{path}: needs a network for {link}"
            elif not os.path.exists(there) or (anchor and there in pages and f'id="{anchor}"' not in pages[there]):
                yield f"{path}: {link} leads nowhere"


if __name__ == "__main__":
    if not shutil.which("mkdocs"):
        print("skipped: no mkdocs")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as out:
        subprocess.run([os.path.join(ROOT, "docs", "make-site"), out], check=True, timeout=120)
        problems = list(dead_links(os.path.join(out, "html")))
    print("\n".join(problems) or "all links of the site lead somewhere")
    sys.exit(bool(problems))
