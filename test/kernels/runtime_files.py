# SPDX-License-Identifier: Apache-2.0
"""What stock Python, Java, Node, Ruby and PHP need of this machine to run in another one."""
import glob
import os
import re
import shutil
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "runtimes")
CHAIN = os.path.join(os.path.dirname(HERE), "peers", "java", "Chain.java")
NODE_MODULES = "/usr/share/nodejs"  # Debian's node takes some of its own from there
LEFT_OUT = re.compile(r"/(test|tests|idlelib|ensurepip|lib2to3|tkinter|turtledemo|dist-packages|jmods|demo|man|"
                      r"src\.zip|ct\.sym|config-[^/]*)(/|$)")


class Missing(Exception):
    """A runtime, or what its program is compiled with, is not here."""


def libraries_of(program):
    output = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", output)


def tree(directory):
    files = set()
    for folder, _, names in os.walk(directory, followlinks=True):
        if not LEFT_OUT.search(folder):
            files.update(os.path.join(folder, name) for name in names if not LEFT_OUT.search("/" + name))
    return {file for file in files if os.path.isfile(file)}


def program(name):
    path = shutil.which(name, path="/usr/bin:/bin")
    if not path:
        raise Missing("there is no " + name)
    return path


def python_files():
    python = os.path.realpath(program("python3"))
    return {program("python3"), python} | tree("/usr/lib/" + os.path.basename(python))


def java():
    return os.path.realpath(program("java"))


def java_files(directory):
    """With the class of its program, compiled into the directory."""
    subprocess.run([program("javac"), "--release", "17", "-d", directory, CHAIN],
                   check=True)
    return {java()} | tree(os.path.dirname(os.path.dirname(java())))


def node_files():
    node = program("node")
    return {node, os.path.realpath(node)} | (tree(NODE_MODULES) if os.path.isdir(NODE_MODULES) else set())


def ruby_files():
    """Encodings are all that it loads at its start without gems."""
    ruby = program("ruby")
    return {ruby, os.path.realpath(ruby)} | set(glob.glob("/usr/lib/*/ruby/*/enc/**/*.so", recursive=True))


def php_files():
    php = program("php")
    return {php, os.path.realpath(php)}


def files(directory):
    """All files, each to lie where it is here. Directory gets the programs."""
    for name in ("chain.py", "chain.js", "chain.rb", "chain.php"):
        shutil.copy(os.path.join(PROGRAMS, name), directory)
    found = (python_files() | java_files(directory) | node_files() | ruby_files() | php_files() | tree(directory))
    elf = [file for file in found if re.search(r"\.so(\.|$)|/bin/", file)]
    return found.union(*map(libraries_of, elf))
