"""Adds up the JUnit reports of all test runners and ends with one line `N passed, N failed`."""

import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path


def count(report: Path) -> tuple[int, int, int]:
    """(passed, failed, skipped) test cases of one report."""
    passed = failed = skipped = 0
    for case in ElementTree.parse(report).getroot().iter("testcase"):
        if case.find("failure") is not None or case.find("error") is not None:
            failed += 1
        elif case.find("skipped") is not None or case.get("status") in ("notrun", "disabled"):
            skipped += 1
        else:
            passed += 1
    return passed, failed, skipped


def main() -> int:
    reports = sorted(Path(sys.argv[1]).glob("*.xml"))
    totals = [0, 0, 0]
    for report in reports:
        counts = count(report)
        totals = [a + b for a, b in zip(totals, counts)]
        print(f"{report.stem}: {counts[0]} passed, {counts[1]} failed" + (f", {counts[2]} skipped" if counts[2] else ""))
    passed, failed, skipped = totals
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 0 if passed and not failed else 1


if __name__ == "__main__":
    sys.exit(main())
