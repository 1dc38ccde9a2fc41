"""The cases that the Rust library is tested by as well."""

import json
import pathlib
import unittest

import tokrate_apply

CASES = pathlib.Path(__file__).resolve().parents[2] / "cases.json"


class Cases(unittest.TestCase):
    def test_the_module_does_what_the_library_does(self):
        cases = json.loads(CASES.read_text(encoding="utf-8"))
        self.assertTrue(cases)
        for case in cases:
            with self.subTest(case["name"]):
                outcome = tokrate_apply.edit(case["path"], case["text"], case["update"], case.get("format"))
                self.assertEqual(outcome.text, case.get("merged"))
                self.assertEqual(outcome.refused and outcome.refused.code, case.get("refused"))
                if outcome.text is not None:
                    self.assertEqual(outcome.changed, case.get("changed", True))
                    self.assertEqual(bool(outcome.edits), outcome.changed)
                if "candidates" in case:
                    self.assertEqual([list(lines) for lines in outcome.refused.candidates], case["candidates"])

    def test_a_format_that_is_none_is_an_error(self):
        with self.assertRaises(ValueError):
            tokrate_apply.edit("a", "b", "c", "nonsense")


if __name__ == "__main__":
    unittest.main()
