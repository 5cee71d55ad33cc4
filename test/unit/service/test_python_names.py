# SPDX-License-Identifier: Apache-2.0
"""What a Python file of test/ takes from another one is there. Peers and soak run rarely: a name that has changed would
be found weeks later."""
import ast
import glob
import os
import unittest

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FILES = {os.path.splitext(os.path.basename(path))[0]: path
         for path in glob.glob(os.path.join(SOURCE, "test", "**", "*.py"), recursive=True)}
BLOCKS = (ast.If, ast.Try, ast.With)


def read(path):
    with open(path) as file:
        return ast.parse(file.read(), path)


def names_of(statement):
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)):
        return {statement.name}
    if isinstance(statement, (ast.Import, ast.ImportFrom)):
        return {alias.asname or alias.name.split(".")[0] for alias in statement.names}
    if isinstance(statement, ast.Assign):
        return {node.id for target in statement.targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    if isinstance(statement, BLOCKS):
        return {name for inner in ast.walk(statement) if inner is not statement for name in names_of(inner)}
    return set()


def defined_in(tree):
    return {name for statement in tree.body for name in names_of(statement)}


class Names(unittest.TestCase):
    def test_names_of_other_files(self):
        trees = {name: read(path) for name, path in FILES.items()}
        defined = {name: defined_in(tree) for name, tree in trees.items()}
        for name, tree in trees.items():
            modules = {}
            for node in ast.walk(tree):
                if isinstance(node, ast.Import):
                    for alias in node.names:
                        self.assertFalse(alias.name.startswith("test_") and alias.name not in FILES,
                                         "%s: no module %s" % (FILES[name], alias.name))
                        if alias.name in FILES:
                            modules[alias.asname or alias.name] = alias.name
                elif isinstance(node, ast.ImportFrom) and node.module in FILES:
                    missing = {alias.name for alias in node.names} - defined[node.module]
                    self.assertEqual(missing, set(), "%s: from %s" % (FILES[name], node.module))
            for node in ast.walk(tree):
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
                    self.assertIn(node.attr, defined[modules[node.value.id]], "%s:%d" % (FILES[name], node.lineno))


if __name__ == "__main__":
    unittest.main()
