#!/usr/bin/env python3
"""scripts/check-style: what it counts and what it forbids, on small texts and trees."""
import importlib.machinery
import importlib.util
import tempfile
import unittest
from pathlib import Path

SCRIPT = str(Path(__file__).resolve().parents[2] / "scripts/check-style")
loader = importlib.machinery.SourceFileLoader("check_style", SCRIPT)
check_style = importlib.util.module_from_spec(importlib.util.spec_from_loader("check_style", loader))
loader.exec_module(check_style)


class Counts(unittest.TestCase):
    def test_comments_and_blank_lines_are_no_code(self):
        self.assertEqual(check_style.code_lines('// a\n\n/* b\n c */\nint d;  // e\nauto f = "// g";\n'), 2)

    def test_quotes_in_comments_and_slashes_in_literals_do_not_confuse_it(self):
        self.assertEqual(check_style.code_lines("int a;  // don't\nint b = 1'000;\nchar c = '\"';\nint d;\n"), 4)

    def test_raw_strings_are_code(self):
        self.assertEqual(check_style.code_lines('auto a = R"(\n// no comment\n)";\n'), 3)

    def test_tables_are_no_code(self):
        self.assertEqual(check_style.code_lines("int a;\n// clang-format off\n1,\n2,\n// clang-format on\nint b;\n"), 2)

    def test_functions_are_measured_from_signature_to_brace(self):
        text = "namespace a {\nclass B {\n  int c() {\n    if (d) {\n      e();\n    }\n    return f;\n  }\n};\n"
        text += "template <typename T>\nvoid g(int h,\n       int i) {\n  // nothing\n}\n}\n"
        self.assertEqual(check_style.functions(text), [("c", 6), ("g", 4)])

    def test_lambdas_count_in_the_function_around_them(self):
        text = "void a() {\n  b([](int c) {\n    return c;\n  });\n}\n"
        self.assertEqual(check_style.functions(text), [("a", 5)])


class Rules(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        root, check_style.ROOT = check_style.ROOT, Path(self.folder.name)
        self.addCleanup(setattr, check_style, "ROOT", root)

    def write(self, path, text):
        file = check_style.ROOT / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        return file

    def test_public_headers_include_the_standard_library_and_themselves_alone(self):
        self.write("include/unisono/a/b.hpp", '#include <vector>\n#include "unisono/a/c.hpp"\n#include <mpi.h>\n')
        self.write("include/unisono/a/d.hpp", "#include <fmt/format.h>\n")
        complaints = list(check_style.check_includes())
        self.assertEqual(len(complaints), 2)
        self.assertTrue(complaints[0].startswith("include/unisono/a/b.hpp:3: <mpi.h>"))

    def test_modules_that_include_each_other_are_refused(self):
        self.write("src/a/a.cpp", '#include "unisono/b/b.hpp"\n')
        self.write("include/unisono/b/b.hpp", '#pragma once\n#include "unisono/c/c.hpp"\n')
        self.assertEqual(list(check_style.check_modules()), [])
        self.write("src/c/deep/c.cpp", '#include "unisono/c/c.hpp"\n#include "unisono/a/a.hpp"\n')
        (complaint,) = check_style.check_modules()
        self.assertEqual(
            complaint,
            "modules include each other: a includes b (src/a/a.cpp:1), b includes c (include/unisono/b/b.hpp:2), "
            "c includes a (src/c/deep/c.cpp:2)",
        )

    def test_a_room_includes_earlier_rooms_alone(self):
        self.write("src/CMakeLists.txt", "unisono_module(m MODULES a b ROOMS low high\n  LIBRARIES fmt::fmt)\n")
        self.write("src/m/low/x.hpp", "#pragma once\n")
        self.write("src/m/low/y.cpp", '#include "unisono/m/y.hpp"\n')
        self.write("src/m/high/z.hpp", '#include "low/x.hpp"\n#include "unisono/m/y.hpp"\n')
        self.write("src/m/top.cpp", '#include "high/z.hpp"\n')
        self.write("include/unisono/m/y.hpp", "#pragma once\n")
        self.assertEqual(list(check_style.check_rooms()), [])
        self.write("src/m/low/w.cpp", '#include "low/x.hpp"\n#include "high/z.hpp"\n')
        self.write("src/m/high/v.cpp", '#include "top.hpp"\n')
        self.write("src/m/top.hpp", "#pragma once\n")
        self.write("src/m/high/u.cpp", '#include "unisono/m/u.hpp"\n')
        self.write("include/unisono/m/y.hpp", '#pragma once\n#include "unisono/m/u.hpp"\n')
        self.assertEqual(
            sorted(check_style.check_rooms()),
            [
                "include/unisono/m/y.hpp:2: room low of m includes room high, which comes later",
                "src/m/high/v.cpp:1: room high of m includes top.hpp, above all rooms, which comes later",
                "src/m/low/w.cpp:2: room low of m includes room high, which comes later",
            ],
        )

    def test_a_strategy_is_named_in_its_own_files_and_the_table_alone(self):
        self.write("src/strategies/catalog.cpp", "kinds = {ring_strategy(), star_strategy(), named \"ring\"};\n")
        self.write("src/strategies/ring.cpp", '#include "star.hpp"\nname = "ring"; see = "kind = \\"ring\\"";\n')
        self.write("src/strategies/ring/step.cpp", 'fail("ring");\n')
        self.write("include/unisono/strategies/ring_settings.hpp", '/// "ring"\n')
        self.write("src/jobs/a.cpp", 'a = "ringing";\n')
        self.assertEqual(list(check_style.check_strategies()), [])
        self.write("src/strategies/star.cpp", 'use = "strategy.kind = \\"ring\\"";\n')
        self.write("src/jobs/b.cpp", '#include "unisono/strategies/ring_settings.hpp"\n\nif (a == "star") go();\n')
        self.assertEqual(
            list(check_style.check_strategies()),
            [
                "src/jobs/b.cpp:3: names the strategy 'star' outside its file: ask for a trait",
                "src/jobs/b.cpp:1: includes the header of the strategy 'ring'",
                "src/strategies/star.cpp:1: names the strategy 'ring' outside its file: ask for a trait",
            ],
        )

    def test_two_types_of_one_name_are_refused(self):
        self.write("src/a/b.hpp", "namespace u::a {\nstruct C { int d; };\nenum class E : int { f };\n}\n")
        self.write("src/a/g.cpp", "namespace u::a {\nclass C final : public H {\n struct E {};\n};\n}\n")
        complaints = list(check_style.check_types())
        self.assertEqual(complaints, ["src/a/g.cpp: u::a::C is defined in src/a/b.hpp, too; rename one of them"])

    def test_a_name_may_come_again_where_no_other_file_sees_it(self):
        self.write("src/a/b.cpp", "namespace u {\nnamespace {\nstruct C { int d; };\n}\nvoid e() { struct F {}; }\n}\n")
        self.write("src/a/g.cpp", "namespace u {\nnamespace {\nstruct C {};\n}\nvoid h() { struct F {}; }\n}\n")
        inner = "namespace v {\nstruct C {};\n}\n"
        self.write("src/b/b.cpp", f"namespace u {{\nstruct D::C {{ int x; }};\nstruct G;\n{inner}}}\n")
        self.write("src/b/c.cpp", "namespace u {\nstruct D { struct C; };\nstruct G {};\n}\n")
        self.assertEqual(list(check_style.check_types()), [])

    def test_conditions_on_cuda_stay_in_their_room(self):
        self.write("src/kernels/cuda/a.cpp", "#if UNISONO_CUDA\n#endif\n")
        self.write("src/kernels/b.cpp", "int a;\n#ifdef UNISONO_CUDA\n#endif\n")
        complaints = list(check_style.check_conditions())
        self.assertEqual([c.split(": ")[0] for c in complaints], ["src/kernels/b.cpp:2"])

    def test_lines_end_at_120_characters_not_bytes(self):
        self.write("CMakeLists.txt", "")
        self.write("src/a.cpp", "// " + "ü" * 117 + "\n" + "x" * 121 + "\n")
        self.assertEqual([c.split(": ")[0] for c in check_style.check_lines()], ["src/a.cpp:2"])

    def test_scripts_parse_and_can_be_executed(self):
        self.write("scripts/good", "#!/usr/bin/env bash\ntrue\n").chmod(0o755)
        self.write("scripts/unexecutable", "#!/usr/bin/env bash\ntrue\n")
        self.write("scripts/unclosed", "#!/usr/bin/env bash\nif true\n").chmod(0o755)
        self.write("scripts/wrong", "#!/usr/bin/env python3\ndef\n").chmod(0o755)
        complaints = list(check_style.check_scripts())
        self.assertEqual([c.split(":")[0] for c in complaints],
                         ["scripts/unclosed", "scripts/unexecutable", "scripts/wrong"])


if __name__ == "__main__":
    unittest.main()
