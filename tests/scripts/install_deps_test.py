#!/usr/bin/env python3
"""scripts/install-deps: asks for what is missing and for nothing else."""
import unittest

from fakes import ScriptTest

SCRIPT = "scripts/install-deps"


class InstallDeps(ScriptTest):
    def setUp(self):
        super().setUp()
        self.fake("apt-get")
        self.fake("sudo", 'exec "$@"')

    def test_does_nothing_where_nothing_is_missing(self):
        self.fake("dpkg-query", "printf installed")
        result = self.run_script(SCRIPT)
        self.assertEqual(result.returncode, 0)
        self.assertIn("everything is there", result.stdout)
        self.assertEqual(self.calls("apt-get"), [])

    def test_says_and_installs_what_is_missing(self):
        self.fake("dpkg-query", '[[ $* == *catch2* ]] || printf installed')
        result = self.run_script(SCRIPT, "build", "test")
        self.assertEqual(result.returncode, 0)
        self.assertIn("installing from Debian: catch2\n", result.stdout)
        self.assertEqual(self.calls("apt-get"),
                         ["apt-get update", "apt-get install --yes --no-install-recommends catch2"])

    def test_a_package_that_was_removed_is_missing(self):
        self.fake("dpkg-query", '[[ $* == *catch2* ]] && printf config-files || printf installed')
        self.run_script(SCRIPT, "test")
        self.assertIn("apt-get install --yes --no-install-recommends catch2", self.calls("apt-get"))

    def test_a_failed_installation_is_an_error(self):
        self.fake("dpkg-query", "exit 1")
        self.fake("apt-get", "exit 100")
        self.assertEqual(self.run_script(SCRIPT, "build").returncode, 100)

    def test_a_check_installs_nothing(self):
        self.fake("dpkg-query", '[[ $* == *patchelf* ]] || printf installed')
        result = self.run_script(SCRIPT, "--check", "bundle")
        self.assertEqual(result.returncode, 1)
        self.assertIn("missing: patchelf\n  scripts/install-deps bundle   installs them", result.stderr)
        self.assertEqual(self.calls("apt-get"), [])
        self.fake("unisono", "echo 0.1.0")
        bundle = self.run_script("scripts/make-bundle", "--binaries", str(self.folder / "bin"))
        self.assertEqual(bundle.returncode, 1)
        self.assertIn("missing: patchelf", bundle.stderr)
        self.assertEqual(self.calls("apt-get"), [])

    def test_an_unknown_group_is_refused(self):
        result = self.run_script(SCRIPT, "everything")
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no group 'everything'; choose from build, test, bundle, style, fuzz", result.stderr)


if __name__ == "__main__":
    unittest.main()
