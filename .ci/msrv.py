"""No dependency of the library may ask for a newer Rust than the crate states. (Uses of newer parts of the standard
library are caught by clippy's `incompatible_msrv`.)"""

import json
import subprocess
import sys

metadata = json.loads(subprocess.check_output(
    ["cargo", "metadata", "--format-version", "1", "--all-features", "--locked"], text=True))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
root = metadata["resolve"]["root"]


def version(text):
    return tuple(int(part) for part in (text or "0").split("."))


def is_normal(dependency):
    return any(kind["kind"] is None for kind in dependency["dep_kinds"])


seen, queue = set(), [root]
while queue:
    package = queue.pop()
    if package not in seen:
        seen.add(package)
        queue += [dependency["pkg"] for dependency in nodes[package]["deps"] if is_normal(dependency)]

stated = packages[root]["rust_version"]
newer = [f"{packages[package]['name']} {packages[package]['version']} needs Rust {packages[package]['rust_version']}"
         for package in seen if version(packages[package]["rust_version"]) > version(stated)]
print(f"{len(seen) - 1} dependencies against Rust {stated}: {len(newer)} newer")
sys.exit("\n".join(newer) if newer else 0)
