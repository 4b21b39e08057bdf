"""Each rule of the wire has its line of code and its test, and no id is cited that no rule has."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
DOCUMENT = TESTS.parent / "docs" / "octonode-wire.md"

#: A row of the tables: id, rule, source, level.
ROW = re.compile(r"^\| ([A-Z]+-\d+) \| (.+?) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)

#: What the level of a rule ends with as long as nothing in the package keeps it.
PLANNED = "planned"


def rules() -> dict[str, str]:
    """Return the level of each rule, by its id."""
    found = ROW.findall(DOCUMENT.read_text(encoding="utf-8"))
    ids = [id_ for id_, *_ in found]
    assert sorted(ids) == sorted(set(ids)), "an id stands for one rule"
    return {id_: level.strip() for id_, _, _, level in found}


RULES = rules()
TOPICS = sorted({id_.partition("-")[0] for id_ in RULES})
CITED = re.compile(rf"\b(?:{'|'.join(TOPICS)})-\d+\b")
RANGE = re.compile(rf"\b({'|'.join(TOPICS)})-(\d+) to \1-(\d+)\b")


def cited_in(folder: Path, *, without: tuple[str, ...] = ()) -> dict[str, set[str]]:
    """Return the files of a folder that cite an id, by the id; `A-1 to A-3` cites all three."""
    found: dict[str, set[str]] = {}
    for path in sorted([*folder.rglob("*.py"), *folder.rglob("*.json")]):
        if path.name in without:
            continue
        text = path.read_text(encoding="utf-8")
        ids = CITED.findall(text)
        for topic, first, last in RANGE.findall(text):
            ids += [f"{topic}-{number}" for number in range(int(first), int(last) + 1)]
        for id_ in ids:
            found.setdefault(id_, set()).add(str(path.relative_to(folder)))
    return found


def package() -> Path:
    spec = find_spec("octonode_sdk")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


IN_SOURCE = cited_in(package())
IN_TESTS = cited_in(TESTS, without=("test_rules.py",))
KEPT = [id_ for id_, level in RULES.items() if not level.endswith(PLANNED)]


def test_the_document_has_rules() -> None:
    """Our own choice: the tests below must not pass because nothing was found."""
    assert len(RULES) > 150
    assert {"LINE-1", "REQ-1", "CTX-1", "RES-1", "ERR-1", "MAN-1", "SCH-1", "ICO-1", "LIFE-1"} <= set(KEPT)


def test_the_ids_of_a_topic_count_up_without_a_gap() -> None:
    """Our own choice: a rule that is dropped keeps its row."""
    for topic in TOPICS:
        numbers = [int(id_.partition("-")[2]) for id_ in RULES if id_.startswith(topic + "-")]
        assert numbers == list(range(1, len(numbers) + 1)), topic


@pytest.mark.parametrize("id_", KEPT)
def test_each_rule_is_cited_by_the_code_that_keeps_it_and_by_a_test(id_: str) -> None:
    """Our own choice: one search finds the rule, the code and the proof."""
    assert IN_SOURCE.get(id_), f"{id_} is cited nowhere in octonode_sdk"
    assert IN_TESTS.get(id_), f"{id_} is cited by no test"


def test_each_id_that_is_cited_is_that_of_a_rule() -> None:
    """Our own choice: a number that nobody can look up is worth nothing."""
    unknown = {id_: files for cited in (IN_SOURCE, IN_TESTS) for id_, files in cited.items() if id_ not in RULES}
    assert unknown == {}


def test_what_is_planned_is_not_there_yet() -> None:
    """Our own choice: whoever builds it takes the mark away, and then owes the code and the test."""
    planned = [id_ for id_, level in RULES.items() if level.endswith(PLANNED)]
    assert planned
    assert {id_: IN_SOURCE[id_] for id_ in planned if id_ in IN_SOURCE} == {}
