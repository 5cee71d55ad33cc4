#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""How the product's C reads, in figures, for two commits side by side.

    sizes.py [A [B]]        B: the working tree; A: where this branch left main, or the commit before HEAD

What is measured: .c and .h outside of test/, without vmlinux.h and what is generated. Functions and names are found
in the text, without comments and strings and without a preprocessor. The figures show where to look; none is a quota.
"""
import collections
import io
import os
import re
import statistics
import subprocess
import sys
import tarfile

TREE = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", ".."))
COMMENT_OR_LITERAL = re.compile(r"/\*.*?\*/|//[^\n]*|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'", re.S)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
HEAD = re.compile(r"(\w+)\s*\((.*)\)[\s\w]*$", re.S)
ASSERTION = re.compile(r"\b\w*(?:assert|ASSERT)\w*\s*\(")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.M)
# Words that docs/style.md bans from comments.
BANNED = re.compile(r"\b(whoever|whom|nobody|anew|for good|in vain|at hand|likewise|so many|is told|that which|it is said)\b",
                    re.I)

Function = collections.namedtuple("Function", "name lines parameters is_static file")


# ---- reading ----

def git(*arguments):
    return subprocess.run(["git", *arguments], cwd=TREE, capture_output=True, check=True).stdout


def is_product(name):
    return name.endswith((".c", ".h")) and not name.startswith(("test/", "build/")) and "/vmlinux/" not in name


def read(commit):
    """{path: text} of a commit, or of the working tree (None)."""
    if commit is None:
        names = git("ls-files", "-z", "--cached", "--others", "--exclude-standard").decode().split("\0")
        files = {}
        for name in names:
            if is_product(name) and os.path.isfile(os.path.join(TREE, name)):
                with open(os.path.join(TREE, name), errors="replace") as file:
                    files[name] = file.read()
        return files
    with tarfile.open(fileobj=io.BytesIO(git("archive", commit))) as archive:
        return {member.name: archive.extractfile(member).read().decode(errors="replace")
                for member in archive if member.isfile() and is_product(member.name)}


def blank(match):
    """The same number of lines, nothing on them."""
    return re.sub(r"[^\n]", " ", match.group(0))


def code_of(text):
    """Without comments and literals; a string leaves its quotes."""
    return COMMENT_OR_LITERAL.sub(lambda m: '""' if m.group(0)[0] == '"' else blank(m), text)


def top_commas(text):
    depth, commas = 0, 0
    for char in text:
        depth += (char == "(") - (char == ")")
        commas += char == "," and depth == 0
    return commas


def function_of(head):
    """(name, parameters, is static) if the text before a `{` is the head of a function, else None."""
    found = HEAD.search(head)
    if not found or "=" in head.split("(")[0] or found.group(1) in ("if", "while", "for", "switch", "__attribute__"):
        return None
    name = re.search(r"(\w+)\s*\(", head).group(1)  # the first parenthesis is that of the parameters
    parameters = head[head.index("(") + 1:head.rindex(")")].strip()
    return name, 0 if parameters in ("", "void") else top_commas(parameters) + 1, "static" in head.split(name)[0].split()


def functions_of(file, code):
    """The functions that a file defines, with the lines from the first of the head to the closing brace."""
    code = DIRECTIVE.sub(blank, code)
    functions, depth, start, current = [], 0, 0, None
    for token in re.finditer(r"[{};]", code):
        kind = token.group(0)
        if kind == "{":
            if depth == 0:
                head = code[start:token.start()]
                if head.strip() in ('extern ""',):  # extern "C" encloses, it does not nest
                    start = token.end()
                    continue
                current = function_of(head), start + len(head) - len(head.lstrip())
            depth += 1
        elif kind == "}":
            depth = max(0, depth - 1)
            if depth == 0 and current and current[0]:
                name, parameters, is_static = current[0]
                lines = code.count("\n", current[1], token.end()) + 1
                functions.append(Function(name, lines, parameters, is_static, file))
            if depth == 0:
                current, start = None, token.end()
        elif depth == 0:
            start = token.end()
    return functions


# ---- graphs ----

def knots(edges):
    """Groups of more than one node that all reach each other (Tarjan, without recursion)."""
    index, low, stack, found, counter = {}, {}, [], [], 0
    for root in edges:
        work = [(root, None)] if root not in index else []
        while work:
            node, rest = work.pop()
            if rest is None:
                index[node] = low[node] = counter
                counter += 1
                stack.append(node)
                rest = iter(sorted(edges.get(node, ())))
            for follower in rest:
                if follower not in index:
                    work += [(node, rest), (follower, None)]
                    break
                if follower in stack:
                    low[node] = min(low[node], low.get(follower, index[follower]))
            else:
                if low[node] == index[node]:
                    group = stack[stack.index(node):]
                    del stack[stack.index(node):]
                    if len(group) > 1:
                        found.append(group)
                if work:
                    above = work[-1][0]
                    low[above] = min(low[above], low[node])
    return found


def includes(files):
    """{path: paths that it includes}; from the root of the tree or from its own folder."""
    edges = {}
    for name, text in files.items():
        named = INCLUDE.findall(text)
        places = [(one, os.path.normpath(os.path.join(os.path.dirname(name), one))) for one in named]
        edges[name] = {place for pair in places for place in pair if place in files and place != name}
    return edges


def by_module(edges):
    """A module is X.c with X.h."""
    def module(name):
        return name.rsplit(".", 1)[0].removesuffix(".bpf")

    merged = collections.defaultdict(set)
    for name, targets in edges.items():
        merged[module(name)] |= {module(target) for target in targets} - {module(name)}
    return merged


# ---- figures ----

def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))] if values else 0


def spread(values):
    """median / 90th percentile / largest"""
    return "%d / %d / %d" % (statistics.median(values or [0]), quantile(values, 0.9), max(values, default=0))


def percent(part, whole):
    return "%.0f %%" % (100 * part / whole) if whole else "-"


def comment_lines(text):
    return sum(match.group(0).count("\n") + 1 for match in COMMENT_OR_LITERAL.finditer(text)
               if match.group(0).startswith(("/*", "//")))


def one_use(functions, code):
    """Static functions of .c files whose name stands once in the file beside its definition and its declarations. An
    entry in a table counts as a use."""
    statics = [f for f in functions if f.is_static and f.file.endswith(".c")]
    words = {name: collections.Counter(re.findall(r"\w+", text)) for name, text in code.items()}
    declared = {name: collections.Counter(re.findall(r"^static [^;{}=()]*?(\w+)\([^;{}]*\);", text, re.M))
                for name, text in code.items()}
    once = [f for f in statics if words[f.file][f.name] - 1 - declared[f.file][f.name] == 1]
    return once, statics


def figures(files):
    """[(figure, value)]"""
    code = {name: code_of(text) for name, text in files.items()}
    functions = [f for name, text in code.items() for f in functions_of(name, text)]
    lines = {name: text.count("\n") for name, text in files.items()}
    sources, headers = ([name for name in files if name.endswith(end)] for end in (".c", ".h"))
    folders = collections.Counter(os.path.dirname(name) or "." for name in files)
    fullest, n_fullest = folders.most_common(1)[0] if folders else ("-", 0)
    lengths = [f.lines for f in functions]
    n_lines = sum(lines.values())
    once, statics = one_use(functions, code)
    assertions = sum(len(ASSERTION.findall(DIRECTIVE.sub(blank, text))) for text in code.values())
    cyclic, modules = knots(includes(files)), knots(by_module(includes(files)))
    longest = max(functions, key=lambda f: f.lines, default=Function("-", 0, 0, False, "-"))
    comments = "\n".join(m.group(0) for text in files.values() for m in COMMENT_OR_LITERAL.finditer(text)
                         if m.group(0).startswith(("/*", "//")))
    return [
        # Files by their ending, and lines with blank ones and comments.
        ("files .c / .h", "%d / %d" % (len(sources), len(headers))),
        ("lines", "%d" % n_lines),
        ("lines of a .c: median / p90 / max", spread([lines[name] for name in sources])),
        ("lines of a .h: median / p90 / max", spread([lines[name] for name in headers])),
        ("files over 400 lines", "%d" % sum(1 for n in lines.values() if n > 400)),
        # Folders that hold a source; the fullest by number of sources in it, not below it.
        ("folders", "%d" % len(folders)),
        ("fullest folder", "%d (%s)" % (n_fullest, fullest)),
        # Definitions, static inline ones too; lines from the head to the closing brace.
        ("functions", "%d" % len(functions)),
        ("lines of a function: median / p90 / max", spread(lengths)),
        ("longest function", "%s" % longest.name),
        ("functions over 40 / 70 lines", "%d / %d" % (sum(n > 40 for n in lengths), sum(n > 70 for n in lengths))),
        ("functions under 6 lines", percent(sum(n < 6 for n in lengths), len(lengths))),
        ("static functions used once", percent(len(once), len(statics))),
        # Used once and of at most 6 lines: does the name say more than the body?
        ("of these at most 6 lines", "%d" % sum(f.lines <= 6 for f in once)),
        # A name of one word, such as take(): nothing in it says what is taken.
        ("functions named by one word", percent(sum("_" not in f.name for f in functions), len(functions))),
        ("names of functions in 4 files or more", "%d" % sum(
            n >= 4 for n in collections.Counter(f.name for f in functions).values())),
        ("functions over five parameters", "%d" % sum(f.parameters > 5 for f in functions)),
        # Calls of anything with "assert" in its name, _Static_assert too; definitions of such macros are left out.
        ("assertions a 1000 lines", "%.1f" % (1000 * assertions / n_lines if n_lines else 0)),
        # Lines that a comment touches.
        ("lines with a comment", percent(sum(comment_lines(text) for text in files.values()), n_lines)),
        ("words banned from comments", "%d" % len(BANNED.findall(comments))),
        ("TODO, FIXME, XXX", "%d" % len(re.findall(r"\b(?:TODO|FIXME|XXX)\b", comments))),
        # Groups of files, or of modules (X.c with X.h), that include each other in a circle.
        ("include cycles of files", "%d" % len(cyclic)),
        ("include cycles of modules", "%d" % len(modules)),
        ("modules in the largest cycle", "%d" % max(map(len, modules), default=0)),
    ]


def default_base():
    base = git("merge-base", "HEAD", "main").decode().strip() \
        if subprocess.run(["git", "rev-parse", "-q", "--verify", "main"], cwd=TREE, capture_output=True,
                          check=False).returncode == 0 else ""
    head = git("rev-parse", "HEAD").decode().strip()
    return base if base and base != head else "HEAD~1"


def main():
    if {"-h", "--help"} & set(sys.argv) or len(sys.argv) > 3:
        print(__doc__)
        return 0 if len(sys.argv) == 2 else 2
    first = sys.argv[1] if len(sys.argv) > 1 else default_base()
    second = sys.argv[2] if len(sys.argv) > 2 else None
    for commit in filter(None, (first, second)):
        if subprocess.run(["git", "rev-parse", "-q", "--verify", commit + "^{commit}"], cwd=TREE,
                          stdout=subprocess.DEVNULL, check=False).returncode:
            sys.exit("sizes: there is no commit '%s'" % commit)
    names = [git("rev-parse", "--short", first).decode().strip(),
             git("rev-parse", "--short", second).decode().strip() if second else "working tree"]
    columns = [figures(read(commit)) for commit in (first, second)]
    print("%-42s %28s %28s" % ("", *names))
    for (label, before), (_, after) in zip(*columns):
        print("%-42s %28s %28s" % (label, before, after))
    return 0


if __name__ == "__main__":
    sys.exit(main())
