#!/usr/bin/env python3
"""Which mutants of a crate its tests notice, with one build for all of them: docs/mutation.md has the figures.

    pip install tree-sitter==0.26.1 tree-sitter-rust==0.24.2
    scripts/mutants.py tokrate-record 'crates/record/src/curve/*.rs' --test curve:: --skip no_finite_input --out curve.json
    scripts/mutants.py tokrate-record 'crates/record/src/curve/*.rs' --test curve:: --again curve.json --out curve.json

Takes the list of `cargo mutants --list`, and writes each of them beside what it replaces, behind a switch that the environment
variable MUTANT turns on. All that is done in a copy of the files that git knows; only the tests' programs are built in it. Each test
then runs once by itself, to see which switches it asks about and how long it takes; each mutant runs the tests that ask about it,
quickest first, each in a process of its own, until one fails.

Not covered, and counted as "not run": what stands in constants, statics and `const fn`, operators in chains of `if let`, functions
whose results are of an unnamed type, and whatever else does not build behind a switch while it would build by itself (or would
not: the two are not told apart). A test that is never reached by a call from the crate's library, as in its binaries, is not
seen either. `--again` runs only what survived in that earlier run.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

import tree_sitter
import tree_sitter_rust

SWITCH = r"""
#[doc(hidden)]
pub fn mutant(number: u32) -> bool {
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::sync::{LazyLock, Mutex};
    static CHOSEN: LazyLock<u32> =
        LazyLock::new(|| std::env::var("MUTANT").ok().and_then(|number| number.parse().ok()).unwrap_or(0));
    static TOLD: LazyLock<Option<Mutex<std::fs::File>>> =
        LazyLock::new(|| Some(Mutex::new(std::fs::File::create(std::env::var("MUTANTS_REACHED").ok()?).ok()?)));
    static REACHED: [AtomicBool; 1 << 16] = [const { AtomicBool::new(false) }; 1 << 16];
    if let Some(told) = &*TOLD {
        if !REACHED[number as usize].swap(true, Ordering::Relaxed) {
            let _ = told.lock().map(|mut file| writeln!(file, "{number}"));
        }
    }
    *CHOSEN == number
}
"""
COMPARISONS = {"==", "!=", "<", "<=", ">", ">="}
FROZEN = {"const_item", "static_item", "attribute_item", "macro_definition", "token_tree"}


class File:
    """One source file with its mutants behind switches."""

    def __init__(self, path, mutants):
        self.source = path.read_bytes()
        self.lines = self.source.split(b"\n")
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line) + 1)
        self.at = collections.defaultdict(list)
        for mutant in mutants:
            span = mutant["span"]
            self.at[mutant["genre"], self.offset(span["start"])].append(mutant)
        self.placed = set()

    def offset(self, place):
        line = self.lines[place["line"] - 1].decode()
        return self.starts[place["line"] - 1] + len(line[: place["column"] - 1].encode())

    def take(self, genre, offset):
        found = self.at.get((genre, offset), [])
        self.placed.update(mutant["number"] for mutant in found)
        return [(mutant["number"], mutant["replacement"]) for mutant in found]

    def text(self, node):
        return self.source[node.start_byte : node.end_byte].decode()

    def render(self, node=None):
        if node is None:
            parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_rust.language()))
            return self.render(parser.parse(self.source).root_node)
        if node.type in FROZEN:
            return self.text(node)
        if node.type == "function_item" and any("const" in self.text(c) for c in node.children if c.type == "function_modifiers"):
            return self.text(node)
        special = getattr(self, "of_" + node.type, None)
        text = special(node) if special else self.plain(node)
        guards = self.take("MatchArmGuard", node.start_byte) if node.parent and node.parent.type == "match_pattern" and node == node.parent.child_by_field_name("condition") else []
        return self.choice([(n, r) for n, r in guards], text) if guards else text

    def plain(self, node, replaced=None):
        """The node's text, with its children rendered."""
        parts, at = [], node.start_byte
        for child in node.children:
            parts.append(self.source[at : child.start_byte].decode())
            parts.append(replaced[child.id] if replaced and child.id in replaced else self.render(child))
            at = child.end_byte
        return "".join(parts) + self.source[at : node.end_byte].decode()

    @staticmethod
    def choice(others, text):
        """Each on a line of its own, so that what does not build is known by its line."""
        return "(" + "".join(f"\nif crate::mutant({n}) {{ {other} }} else" for n, other in others) + f"\n{{ {text} }})"

    def of_binary_expression(self, node):
        left, sign, right = node.children
        others = self.take("BinaryOperator", sign.start_byte)
        if not others:
            return self.plain(node)
        l, r, sign = self.render(left), self.render(right), self.text(sign)
        if sign in ("&&", "||"):
            (number, _), equal = others[0], "!=" if sign == "&&" else "=="
            return f"(match ({l}) {{ l__ =>\nif l__ {equal} crate::mutant({number}) {{ {r} }} else {{ l__ }} }})"
        refer, value = ("&", "*") if sign in COMPARISONS else ("", "")
        each = self.choice([(n, f"{value}l__ {s} {value}r__") for n, s in others], f"{value}l__ {sign} {value}r__")
        return f"(match ({refer}({l}), {refer}({r})) {{ (l__, r__) => {each} }})"

    def of_compound_assignment_expr(self, node):
        left, sign, right = node.children
        others = self.take("BinaryOperator", sign.start_byte) + self.take("BinaryOperatorAssignment", sign.start_byte)
        l, r = self.render(left), self.render(right)
        if not others:
            return self.plain(node)
        return f"(match ({r}) {{ r__ => {self.choice([(n, f'{l} {s} r__') for n, s in others], f'{l} {self.text(sign)} r__')} }})"

    def of_unary_expression(self, node):
        sign, value = node.children
        others = self.take("UnaryOperator", sign.start_byte)
        if not others:
            return self.plain(node)
        each = self.choice([(n, f"{s}v__") for n, s in others], f"{self.text(sign)}v__")
        return f"(match ({self.render(value)}) {{ v__ => {each} }})"

    def of_block(self, node):
        text = self.plain(node)
        if node.parent.type != "function_item":
            return text
        inner = next((c.start_byte for c in node.children[1:]), node.start_byte)
        others = self.take("FnValue", node.start_byte) + self.take("FnValue", inner)
        return "{" + "".join(f"\nif crate::mutant({n}) {{ return {other}; }}" for n, other in others) + "\n" + text[1:]

    def of_match_arm(self, node):
        others = self.take("MatchArm", node.start_byte)
        pattern = node.child_by_field_name("pattern")
        if not others:
            return self.plain(node)
        condition = pattern.child_by_field_name("condition")
        off = f"!crate::mutant({others[0][0]})"
        if condition:
            inner = self.plain(pattern, {condition.id: f"{off} && ({self.render(condition)})"})
        else:
            inner = self.plain(pattern) + f" if {off}"
        return self.plain(node, {pattern.id: inner})

    def of_field_initializer_list(self, node):
        struct = self.text(node.parent.child_by_field_name("name"))
        base = next((self.text(c)[2:] for c in node.children if c.type == "base_field_initializer"), None)
        replaced = {}
        for child in node.children:
            others = self.take("StructField", child.start_byte) if base else []
            if others:
                name = child.child_by_field_name("field") or child.children[0]
                value = child.child_by_field_name("value")
                base_value = f"{struct}::default()" if base.strip() == "Default::default()" else f"({base})"
                other = self.choice([(others[0][0], f"{base_value}.{self.text(name)}")], self.render(value) if value else self.text(name))
                replaced[child.id] = f"{self.text(name)}: {other}"
        return self.plain(node, replaced)


def listed(package, globs):
    command = ["cargo", "mutants", "--list", "--json", "-p", package, *(part for glob in globs for part in ("-f", glob))]
    mutants = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    for number, mutant in enumerate(mutants, 1):
        mutant["number"] = number
    return mutants


def copied():
    """A copy of the files that git knows, as they lie here."""
    tree = pathlib.Path(tempfile.mkdtemp(prefix="mutants-"))
    names = subprocess.run(["git", "ls-files", "-z", "-co", "--exclude-standard"], check=True, stdout=subprocess.PIPE).stdout
    for name in filter(None, names.decode().split("\0")):
        if pathlib.Path(name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, tree / name)
    return tree


def build(tree, package, mutants):
    """The tests' programs, and the mutants that could be put behind a switch; those that do not build are left out."""
    root = pathlib.Path(mutants[0]["file"].split("/src/")[0])
    manifest = tree / root / "Cargo.toml"
    manifest.write_text(re.sub(r"\[lints\]\nworkspace = true\n", "", manifest.read_text()))
    library = root / "src/lib.rs"
    target = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", "target")).absolute() / "mutants"
    left = list(mutants)
    while True:
        by_file = collections.defaultdict(list)
        for mutant in left:
            by_file[mutant["file"]].append(mutant)
        placed = set()
        for name in {mutant["file"] for mutant in mutants} | {str(library)}:
            file = File(pathlib.Path(name), by_file.get(name, []))
            text = file.render() + (SWITCH if name == str(library) else "")
            placed |= file.placed
            if not (tree / name).exists() or (tree / name).read_text() != text:
                (tree / name).write_text(text)
        left = [mutant for mutant in left if mutant["number"] in placed]
        command = ["cargo", "test", "--tests", "--no-run", "-p", package, "--message-format=json", "--config", "profile.dev.debug=false"]
        # A folder of its own: programs built elsewhere from the same names would take the place of these.
        environment = os.environ | {"CARGO_TARGET_DIR": str(target)}
        done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        if done.returncode == 0:
            return [m["executable"] for m in messages if m.get("executable") and m["profile"]["test"]], left
        broken = set()
        errors = [m["message"] for m in messages if m["reason"] == "compiler-message" and m["message"]["level"] == "error"]
        for error in errors:
            for span in error["spans"]:
                lines = (tree / span["file_name"]).read_text().split("\n")[span["line_start"] - 1 : span["line_end"]]
                broken |= {int(number) for number in re.findall(r"crate::mutant\((\d+)\)", " ".join(lines[:1]))}
        print(f"{len(broken)} do not build behind a switch", file=sys.stderr)
        if not broken & {mutant["number"] for mutant in left}:
            sys.exit("".join(error["rendered"] for error in errors) or done.stderr)
        left = [mutant for mutant in left if mutant["number"] not in broken]


def run(program, test, root, limit, **variables):
    """How one test ended: 0, another status, or None when its time was over; and how long it took."""
    began = time.monotonic()
    variables = {"PROPTEST_RNG_SEED": "1", "PROPTEST_DISABLE_FAILURE_PERSISTENCE": "1", "INSTA_UPDATE": "no", **variables}
    try:
        command = [program, "--exact", test, "--test-threads", "1"]
        done = subprocess.run(command, cwd=root, env=os.environ | variables, timeout=limit, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode, time.monotonic() - began
    except subprocess.TimeoutExpired:
        return None, limit


def trace(programs, root, wanted, skipped):
    """The tests that reach each mutant, quickest first."""
    took, reached = {}, collections.defaultdict(list)
    for program in programs:
        lines = subprocess.run([program, "--list"], cwd=root, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        for test in (line.removesuffix(": test") for line in lines if line.endswith(": test")):
            if not any(word in test for word in wanted) or any(word in test for word in skipped):
                continue
            with tempfile.NamedTemporaryFile() as seen:
                status, _ = run(program, test, root, 600, MUTANTS_REACHED=seen.name)
                numbers = [int(number) for number in open(seen.name)]
            if not numbers:
                continue
            again, seconds = run(program, test, root, 600)
            if status or again:
                sys.exit(f"{test} fails without a mutant")
            took[program, test] = seconds
            for number in numbers:
                reached[number].append((program, test))
    print(f"{len(took)} tests reach a mutant; slowest first:", file=sys.stderr)
    for key in sorted(took, key=took.get, reverse=True)[:5]:
        print(f"  {took[key]:.2f} s {key[1]}", file=sys.stderr)
    return {number: sorted(tests, key=took.get) for number, tests in reached.items()}, took


def judge(mutant, tests, took, root):
    for key in tests:
        status, _ = run(*key, root, 10 + 10 * took[key], MUTANT=str(mutant["number"]))
        if status != 0:
            return ("timed out" if status is None else "caught"), key[1]
    return ("survived", None) if tests else ("not reached", None)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--test", action="append", default=[], help="only tests whose name holds this")
    parser.add_argument("--skip", action="append", default=[], help="no test whose name holds this")
    parser.add_argument("--again", help="only what survived or was not reached in this earlier result")
    parser.add_argument("--out", help="where the result is written")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    mutants = listed(options.package, options.files)
    earlier = json.load(open(options.again)) if options.again else {}
    result = {mutant["name"]: ["not run", None] for mutant in mutants}
    result |= {name: found for name, found in earlier.items() if name in result}
    tree = copied()
    try:
        known = [m for m in mutants if not (earlier and earlier.get(m["name"], [""])[0] == "not run")]
        programs, built = build(tree, options.package, known)
        root = tree / mutants[0]["file"].split("/src/")[0]
        reached, took = trace(programs, root, options.test or [""], options.skip)
        if earlier:
            built = [m for m in built if earlier.get(m["name"], ["survived"])[0] in ("survived", "not reached")]
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            found = pool.map(lambda mutant: judge(mutant, reached.get(mutant["number"], []), took, root), built)
            for done, (mutant, outcome) in enumerate(zip(built, found), 1):
                result[mutant["name"]] = list(outcome)
                print(f"{done} of {len(built)}: {outcome[0]}", end="\r", file=sys.stderr, flush=True)
    finally:
        shutil.rmtree(tree)
    kinds = ["caught", "timed out", "survived", "not reached", "not run"]
    print("| file | mutants | " + " | ".join(kinds) + " |")
    for name in sorted({mutant["file"] for mutant in mutants}):
        counts = collections.Counter(result[mutant["name"]][0] for mutant in mutants if mutant["file"] == name)
        print(f"| `{name}` | {counts.total()} | " + " | ".join(str(counts[kind]) for kind in kinds) + " |")
    for name, (kind, _) in result.items():
        if kind in ("survived", "not reached", "not run"):
            print(f"{kind}: {name}")
    if options.out:
        json.dump(result, open(options.out, "w"), indent=1)


if __name__ == "__main__":
    main()
