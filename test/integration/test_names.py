# SPDX-License-Identifier: Apache-2.0
"""Functions of a stripped program have the names of the symbols that lie compressed in it."""
import lzma
import os
import subprocess

import harness

SECONDS = 3
SHOWN = {"known_by_symtab": "", "shop::Cart::total": "_ZN4shop4Cart5totalEid",
         "till::total": "_RNvCs1234_4till5total"}


@harness.needs_sampling
class Names(harness.IntegrationTest):
    def stripped_program(self):
        """Without symbols, but with them in .gnu_debugdata."""
        built = os.path.join(os.environ["SPANPROF_BUILD_DIR"], "test", "names_program")
        section, program = (os.path.join(self.directory, name) for name in ("section", "shopper"))
        with open(built + ".debug", "rb") as symbols, open(section, "wb") as file:
            file.write(lzma.compress(symbols.read()))
        subprocess.run(["objcopy", "--add-section", ".gnu_debugdata=" + section, built + ".stripped", program],
                       check=True)
        return program

    def leaf_names(self):
        return {sample.frames[0].function for sample in self.backend.samples()
                if sample.resource.get("process.executable.name") == "shopper"
                and sample.frames and sample.frames[0].kind == "native"}

    def system_names(self):
        names = {}
        for request in self.backend.requests("profiles"):
            strings = request.message.dictionary.string_table
            names.update((strings[function.name_strindex], strings[function.system_name_strindex])
                         for function in request.message.dictionary.function_table)
        return names

    def test_stripped(self):
        spanprof = self.spanprof(over={"processors": {"join": {"wait": "2s"}}})
        spanprof.wait_sampling()
        subprocess.run([self.stripped_program(), str(SECONDS)], check=True, stdout=subprocess.DEVNULL)
        harness.wait_until(lambda: set(SHOWN) <= self.leaf_names(), 30, "the names of its functions")
        self.stop_spanprof(spanprof)
        names = self.system_names()
        self.assertEqual({name: names[name] for name in SHOWN}, SHOWN)
        self.assert_conforming()


if __name__ == "__main__":
    harness.main()
