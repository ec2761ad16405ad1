"""docs/troubleshooting.md says what the code says: every refusal is in its table, and every text of the table is in the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()
SOURCES = {path: path.read_text() for folder in ("api", "domain", "controller", "plugin", "fabric")
           for path in sorted((ROOT / "src" / folder).glob("*.cc")) + sorted((ROOT / "src" / folder).glob("*.h"))
           if not path.name.endswith("_test.cc")}
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
# What a Prepare may fail with is said in these, and why a ComputeDomain is not accepted in the last two.
SAYING = ("plugin/claim_request.cc", "plugin/prepare_flow.cc", "plugin/node_view.cc", "plugin/checkpoint.cc", "plugin/claim_files.cc",
          "api/opaque_config.cc", "domain/acceptance.cc", "domain/imex_options.cc")
# Only a defect of the kubelet or of this driver leads there, or a file that somebody broke, or it is said to the log alone.
NOT_FOR_USERS = ("the kubelet must pass the ResourceClaim's", "its namespace or name is no Kubernetes name", "a channel device without a config",
                 "not a JSON object", "channels are held on this node")
# What stands around a text that is in a table by itself.
AROUND = ("not ready after 10 s: ", "the node is free when the last process of its pods has ended")


def joined(text: str) -> str:
    """Adjacent C++ string literals as the compiler sees them: one."""
    return re.sub(r'"\s*\n\s*"', "", text)


def plain(text: str) -> str:
    return joined(text).replace('\\"', '"')


CODE = "\n".join(plain(text) for text in SOURCES.values())
TESTS = "\n".join(plain(path.read_text()) for path in [*(ROOT / "src").rglob("*_test.cc"), *(ROOT / "tests").rglob("*.py")] if path != Path(__file__))
CRD = (ROOT / "deploy" / "crds" / "computedomains.yaml").read_text()


def refusing(source: str) -> list[list[str]]:
    """The texts in each statement of a file that refuses something, or says what is missing."""
    without_comments = re.sub(r"^\s*//.*$", "", joined(source), flags=re.MULTILINE)
    blanked = LITERAL.sub(lambda found: '"' + found[1].replace(";", "\0") + '"', without_comments)
    says = re.compile(r'\b(?:Fail|Deny|Invalid|Wrong|refuse)\(|AwaitsLease\{|return (?:\{?"|"|[\w.]+ \? "|[\w.]+ \+)')
    statements = [part for part in blanked.split(";") if says.search(part)]
    texts = [[found.replace("\0", ";").replace('\\"', '"') for found in LITERAL.findall(part)] for part in statements]
    return [found for found in texts if any(" " in text.strip() and len(text) > 12 for text in found)]


def tables(section: str) -> list[list[list[str]]]:
    """The rows of each table of a section, without its heading."""
    body = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    found: list[list[list[str]]] = []
    inside = False
    for line in body.splitlines():
        if line.startswith("|") and not inside:
            found.append([])
        inside = line.startswith("|")
        if inside:
            found[-1].append([cell.strip() for cell in line.strip("|").split("|")])
    return [table[2:] for table in found]


(REFUSALS,) = tables("Refusals")
ACCEPTED, NOT_SERVED = tables("Reasons of the condition Accepted")
(BY_THE_SERVER,) = tables("Refused by the API server")
(EVENTS,) = tables("Events alone")
(FORMED,) = tables("Reasons of the condition Formed while pods are held by gating")
(WAITING,) = tables("Waiting")
BY_THE_NODE, BY_HAND = tables("Refused by the node")
SAID = NOT_SERVED + WAITING + BY_THE_NODE + BY_HAND


def test_every_refusal_of_the_code_is_in_the_table() -> None:
    made = {reason for text in SOURCES.values() for reason in re.findall(r'(?:Make|Refuse)\(\s*demand,\s*"([A-Z]\w+)"', text)}
    assert len(made) > 8
    assert made == {row[0].strip("`") for row in REFUSALS}


def test_every_reason_not_to_accept_is_in_the_table() -> None:
    made = set(re.findall(r'"Accepted",\s*"False",\s*"([A-Z]\w+)"', (ROOT / "src/domain/cd_status.cc").read_text()))
    assert made == {row[0].strip("`") for row in ACCEPTED}


def test_every_reason_of_events_alone_is_in_the_table() -> None:
    made = set(re.findall(r'TellInEvent\([^;]*?"([A-Z]\w+)"', SOURCES[ROOT / "src/controller/compute_domain_reconciler.cc"]))
    assert made == {row[0].strip("`") for row in EVENTS}


def test_every_reason_of_held_pods_is_in_the_table() -> None:
    gating = (ROOT / "src/domain/gating.cc").read_text() + (ROOT / "src/domain/gating.h").read_text()
    made = set(re.findall(r'(?:return|Formed\(\w+,)\s*\{?\s*"([A-Z]\w+)"', gating)) | set(re.findall(r'kGateTimedOut\[\] = "(\w+)"', gating))
    assert made - {"Formed", "NoNodes"} == {row[0].strip("`") for row in FORMED}


@pytest.mark.parametrize("row", REFUSALS + EVENTS + FORMED, ids=lambda row: row[0].strip("`"))
def test_reason_and_text_are_what_the_code_can_say(row: list[str]) -> None:
    assert f'"{row[0].strip("`")}"' in CODE
    assert row[1] in CODE, f"no source says: {row[1]}"
    assert row[-1], "a remedy"


@pytest.mark.parametrize("row", SAID, ids=lambda row: row[0][:40])
def test_text_is_what_the_code_can_say(row: list[str]) -> None:
    assert row[0] in CODE, f"no source says: {row[0]}"
    assert row[-1], "a remedy"


def test_every_text_of_a_failing_prepare_and_of_a_wish_not_served_is_in_a_table() -> None:
    known = [row[0] for row in SAID] + [row[1] for row in REFUSALS] + [*NOT_FOR_USERS, *AROUND]
    said = [texts for name in SAYING for texts in refusing(SOURCES[ROOT / "src" / name])]
    assert len(said) > 50
    assert [texts for texts in said if not any(phrase in text for phrase in known for text in texts)] == []


def test_every_rule_of_the_api_server_is_in_the_table() -> None:
    rules = re.findall(r'^ +message: "(.+)"$', CRD, re.MULTILINE)
    assert len(rules) > 6
    assert [rule for rule in rules if not any(row[0] in rule for row in BY_THE_SERVER)] == []
    assert [row[0] for row in BY_THE_SERVER if not any(row[0] in rule for rule in rules)] == []


@pytest.mark.parametrize("text", [row[1] for row in REFUSALS + FORMED] + [row[0] for row in SAID + BY_THE_SERVER], ids=lambda text: text[:40])
def test_a_test_brings_it_about(text: str) -> None:
    """Not only that the code has the text: some other test makes it say so."""
    assert text in TESTS
