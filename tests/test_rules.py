"""Each rule of either wire has its line of code and its test, and no id is cited that no rule has."""

import re
from importlib.util import find_spec
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parent
DOCS = TESTS.parent / "docs"

#: The documents of rules, and the packages that keep them.
DOCUMENTS = {
    "octonode-wire.md": ("octonode_sdk",),
    "nodetool-wire.md": ("nodetool_worker", "octonode_sdk"),
}

#: A row of the tables: id, rule, source, level.
ROW = re.compile(r"^\| ([A-Z]+-\d+) \| (.+?) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)

#: Anything that begins like such a row, so that a row with a slip in it is not passed over.
BEGINNING = re.compile(r"^\| ?[A-Z]+-\d+\b", re.MULTILINE)

#: What the level of a rule ends with as long as nothing in the packages keeps it.
PLANNED = "planned"


def rules(document: str) -> dict[str, str]:
    """Return the level of each rule of a document, by its id."""
    text = (DOCS / document).read_text(encoding="utf-8")
    found = ROW.findall(text)
    assert len(found) == len(BEGINNING.findall(text)), f"{document} has a row that is not id, rule, source, level"
    ids = [id_ for id_, *_ in found]
    assert sorted(ids) == sorted(set(ids)), "an id stands for one rule"
    return {id_: level.strip() for id_, _, _, level in found}


RULES = {document: rules(document) for document in DOCUMENTS}
ALL = {id_: level for found in RULES.values() for id_, level in found.items()}


def topics_of(document: str) -> set[str]:
    return {id_.partition("-")[0] for id_ in RULES[document]}


TOPICS = sorted(set().union(*map(topics_of, DOCUMENTS)))
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
            found.setdefault(id_, set()).add(f"{folder.name}/{path.relative_to(folder)}")
    return found


def folder_of(package: str) -> Path:
    spec = find_spec(package)
    assert spec is not None, f"{package} can't be imported"
    assert spec.origin is not None
    return Path(spec.origin).parent


IN_PACKAGES = {package: cited_in(folder_of(package)) for package in ("octonode_sdk", "nodetool_worker")}
IN_TESTS = cited_in(TESTS, without=("test_rules.py",))


def in_source(document: str, id_: str) -> set[str]:
    """Return the files that cite an id, of the packages that keep the document's rules."""
    return set().union(*(IN_PACKAGES[package].get(id_, set()) for package in DOCUMENTS[document]))


def levels(*, planned: bool) -> list[tuple[str, str]]:
    """Return document and id of the rules that are planned, or of all others."""
    return [
        (document, id_)
        for document, found in RULES.items()
        for id_, level in found.items()
        if level.endswith(PLANNED) is planned
    ]


KEPT = levels(planned=False)


def test_the_documents_have_rules() -> None:
    """Our own choice: the tests below must not pass because nothing was found."""
    kept = {id_ for _, id_ in KEPT}
    assert len(RULES["octonode-wire.md"]) > 150
    assert {"LINE-1", "REQ-1", "CTX-1", "RES-1", "ERR-1", "MAN-1", "SCH-1", "ICO-1", "LIFE-1"} <= kept
    assert len(RULES["nodetool-wire.md"]) > 150
    assert {"FRM-1", "RID-1", "VAL-1", "DSC-1", "NMD-1", "FND-1", "EXE-1", "UPD-1", "CAN-1"} <= kept
    assert {"ISO-1", "WOP-1", "END-1", "BRG-1", "PRV-1"} <= kept


def test_no_topic_stands_in_both_documents() -> None:
    """Our own choice: an id is clear by itself, wherever it is cited."""
    assert topics_of("octonode-wire.md") & topics_of("nodetool-wire.md") == set()


@pytest.mark.parametrize("topic", TOPICS)
def test_the_ids_of_a_topic_count_up_without_a_gap(topic: str) -> None:
    """Our own choice: a rule that is dropped keeps its row."""
    numbers = [int(id_.partition("-")[2]) for id_ in ALL if id_.startswith(topic + "-")]
    assert numbers == list(range(1, len(numbers) + 1))


@pytest.mark.parametrize(("document", "id_"), KEPT, ids=[id_ for _, id_ in KEPT])
def test_each_rule_is_cited_by_the_code_that_keeps_it_and_by_a_test(document: str, id_: str) -> None:
    """Our own choice: one search finds the rule, the code and the proof."""
    assert in_source(document, id_), f"{id_} is cited nowhere in {' and '.join(DOCUMENTS[document])}"
    assert IN_TESTS.get(id_), f"{id_} is cited by no test"


def test_each_id_that_is_cited_is_that_of_a_rule() -> None:
    """Our own choice: a number that nobody can look up is worth nothing."""
    places = (*IN_PACKAGES.values(), IN_TESTS)
    unknown = {id_: files for cited in places for id_, files in cited.items() if id_ not in ALL}
    assert unknown == {}


def test_what_a_rule_of_the_document_refers_to_is_there() -> None:
    """Our own choice: a rule that builds on another one names it by an id that can be looked up."""
    for document in DOCUMENTS:
        assert set(CITED.findall((DOCS / document).read_text(encoding="utf-8"))) <= set(ALL), document


@pytest.mark.parametrize("document", DOCUMENTS)
def test_what_is_planned_is_not_there_yet(document: str) -> None:
    """Our own choice: whoever builds it takes the mark away, and then owes the code and the test."""
    planned = [id_ for place, id_ in levels(planned=True) if place == document]
    assert planned
    assert {id_: in_source(document, id_) for id_ in planned if in_source(document, id_)} == {}
