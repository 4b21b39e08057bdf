"""Does every value of one JSON Schema fit another? Judged for the keywords that manifests are made of.

Two ways of reading keep the verdict useful for ports. An object schema that names properties and says nothing of others
promises nothing about others: a key that only the wider schema names counts as never sent. And what can't be decided is
told as unclear, never guessed.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil, floor

from .fits import LISTS, READ, SAID, bare, fits, is_multiple, kind_of, resolve, same
from .words import json_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from .fits import Schema

__all__ = ["Problem", "problems"]

_KINDS = ("null", "boolean", "number", "string", "array", "object")

#: So many ways to read a schema (the product of its alternatives) are followed; more are told as unclear.
_MOST_ALTERNATIVES = 256
#: So many pairs of schemas are compared; more are told as unclear.
_MOST_PAIRS = 5000
#: So many integers between two bounds are tried one by one.
_MOST_INTEGERS = 256

#: Keywords whose meaning hangs on their own value alone: the same one on both sides says the same. `type_name` is the
#: name of an enum at NodeTool, which joins two only if it is the same.
_OPAQUE = frozenset({"contentEncoding", "contentMediaType", "format", "not", "oneOf", "pattern", "type_name"})


class Problem:
    """Why some value of the narrower schema may not fit the wider one.

    Attributes:
        path: Where, such as `$.box[].width`; `[]` is any item of a list, `.*` any key that is not named.
        message: What is at odds.
        sure: Whether there is such a value; False where that can't be decided.
    """

    __slots__ = ("message", "path", "sure")

    def __init__(self, path: str, message: str, sure: bool = True) -> None:
        self.path, self.message, self.sure = path, message, sure

    def __repr__(self) -> str:
        return f"Problem({self.path!r}, {self.message!r}, {self.sure!r})"


def problems(
    narrow: Schema,
    wide: Schema,
    *,
    narrow_root: Schema,
    wide_root: Schema,
    names: tuple[str, str],
    path: str = "$",
) -> list[Problem]:
    """Return what keeps values of `narrow` from fitting `wide`: nothing where all of them fit.

    Args:
        narrow: The schema whose values have to fit.
        wide: The schema that has to take them.
        narrow_root: Where the references of `narrow` lead.
        wide_root: Where those of `wide` lead.
        names: What messages call the two, such as ("the old one", "the new one").
        path: Where both stand.
    """
    return _Judge(narrow_root, wide_root, names).within([narrow], wide, path).problems


class _UnclearError(Exception):
    """A schema can't be followed; the text says why."""


class _Result:
    """What came of a comparison.

    Attributes:
        problems: What was found.
        apart: Whether no value at all fits.
        lacks: The type that the wider schema has not, or not in full, where that is all that was found.
    """

    __slots__ = ("apart", "lacks", "problems")

    def __init__(self, problems: Iterable[Problem] = (), apart: bool = False, lacks: str | None = None) -> None:
        self.problems, self.apart, self.lacks = list(problems), apart, lacks


class _Part:
    """The values of one JSON kind that fit each of some plain schemas (no alternatives, no references)."""

    __slots__ = ("kind", "schemas", "values", "whole")

    def __init__(self, kind: str, schemas: list[dict[str, Any]], root: Schema) -> None:
        self.kind, self.schemas = kind, schemas
        kinds = [one["type"] if isinstance(one["type"], list) else [one["type"]] for one in schemas if "type" in one]
        self.whole = kind == "number" and (
            any("number" not in one for one in kinds) or any(is_multiple(one, 1) for one in self.all("multipleOf"))
        )
        self.values = self._values(root)

    def all(self, word: str) -> list[Any]:
        return [one[word] for one in self.schemas if word in one]

    def least(self, word: str) -> Any:
        return max(self.all(word), default=0)

    def most(self, word: str) -> Any:
        return min(self.all(word), default=float("inf"))

    def _values(self, root: Schema) -> list[Any] | None:
        """Return all values, or None where they can't be listed."""
        told: list[Any] | None = None
        lists = [*self.all("enum"), *([one] for one in self.all("const"))]
        if lists:
            told = [one for one in lists[0] if kind_of(one) == self.kind]
        elif self.kind == "null":
            told = [None]
        elif self.kind == "boolean":
            told = [False, True]
        elif self.whole:
            low, high = self.low()[0], self.high()[0]
            if low is not None and high is not None and high - low <= _MOST_INTEGERS:
                told = list(range(ceil(low), floor(high) + 1))
        elif self.kind == "string" and self.most("maxLength") == 0:
            told = [""]
        elif self.kind == "array" and self.most("maxItems") == 0:
            told = [[]]
        if told is None:
            return None
        return [one for one in told if all(fits(schema, one, root) is not False for schema in self.schemas)]

    def low(self) -> tuple[Fraction | None, bool]:
        """Return the lower bound of the numbers, and whether it is outside of them."""
        closed, open_ = self.all("minimum"), self.all("exclusiveMinimum")
        return _tightest([Fraction(one) for one in closed], [Fraction(one) for one in open_], 1, self.whole)

    def high(self) -> tuple[Fraction | None, bool]:
        """Return the upper bound in the same way."""
        closed, open_ = self.all("maximum"), self.all("exclusiveMaximum")
        return _tightest([Fraction(one) for one in closed], [Fraction(one) for one in open_], -1, self.whole)

    @property
    def is_empty(self) -> bool:
        """Whether no value is in it, as far as that is easily seen."""
        if self.values is not None:
            return not self.values
        if self.kind == "number":
            (low, above), (high, below) = self.low(), self.high()
            return low is not None and high is not None and (low > high or (low == high and (above or below)))
        word = {"string": "Length", "array": "Items", "object": "Properties"}[self.kind]
        return bool(self.least("min" + word) > self.most("max" + word))


def _tightest(closed: list[Fraction], open_: list[Fraction], sign: int, whole: bool) -> tuple[Fraction | None, bool]:
    """Return the tightest of bounds, and whether it is an open one; of whole numbers it is always one of them."""
    bounds = [(sign * one, False) for one in closed] + [(sign * one, True) for one in open_]
    if not bounds:
        return None, False
    bound, outside = max(bounds)
    if whole:
        bound, outside = Fraction(floor(bound) + 1 if outside else ceil(bound)), False
    return sign * bound, outside


class _Judge:
    def __init__(self, narrow_root: Schema, wide_root: Schema, names: tuple[str, str]) -> None:
        self._narrow_root, self._wide_root = narrow_root, wide_root
        self._narrow, self._wide = names
        self._open: set[str] = set()
        self._pairs = 0

    def within(self, narrow: list[Schema], wide: Schema, path: str) -> _Result:
        """Compare the values that fit all of `narrow` with `wide`."""
        if wide is True or (isinstance(wide, dict) and wide.keys() <= SAID):
            return _Result()
        narrow = [one for at, one in enumerate(narrow) if one is not True and one not in narrow[:at]] or [True]
        if len(narrow) == 1 and same(bare(narrow[0]), bare(wide)) and self._refer_alike(wide):
            return _Result()
        self._pairs += 1
        if self._pairs > _MOST_PAIRS:
            return _Result([Problem(path, "the types are too large to be compared", False)])
        key = f"{narrow!r} {wide!r}"
        if key in self._open:  # a part of a value is being asked what is being shown for the value: by induction
            return _Result()
        self._open.add(key)
        try:
            return self._parts(narrow, wide, path)
        except _UnclearError as error:
            return _Result([Problem(path, str(error), False)])
        finally:
            self._open.discard(key)

    def _refer_alike(self, schema: Schema) -> bool:
        """Tell whether the references in a schema lead to the same on both sides."""
        return "$ref" not in repr(schema) or same(bare(self._narrow_root), bare(self._wide_root))

    def _parts(self, narrow: list[Schema], wide: Schema, path: str) -> _Result:
        results = []
        for choice in product(*(self._expand(one, ()) for one in narrow)):
            schemas = [schema for group in choice for schema in group]
            for kind in _KINDS:
                if all(_takes_kind(one, kind) for one in schemas):
                    part = _Part(kind, schemas, self._narrow_root)
                    if not part.is_empty:
                        results.append(self._part(part, wide, path, ()))
        lacks = list(dict.fromkeys(result.lacks for result in results if result.lacks is not None))
        found: dict[tuple[str, str], Problem] = {}
        for result in results:
            if result.lacks is None or len(lacks) == 1:
                found.update({(one.path, one.message): one for one in result.problems})
        if len(lacks) > 1:
            has = "has values of any type" if len(lacks) == len(_KINDS) else f"has the type {', '.join(lacks)}"
            problem = Problem(path, f"{self._narrow} {has}, {self._wide} has not")
            found = {(path, problem.message): problem, **found}
        return _Result(found.values(), bool(results) and all(result.apart for result in results))

    def _expand(self, schema: Schema, open_: tuple[str, ...]) -> list[list[dict[str, Any]]]:
        """Return the alternatives of a schema: lists of plain schemas that hold together."""
        if isinstance(schema, bool):
            return [[{}]] if schema else []
        factors: list[list[list[dict[str, Any]]]] = [[[schema]]]
        if "$ref" in schema:
            name = schema["$ref"]
            target = resolve(name, self._narrow_root)
            if name in open_ or target is None:
                raise _UnclearError(f"the reference {name!r} of {self._narrow} leads nowhere")
            factors.append(self._expand(target, (*open_, name)))
        for word in LISTS:
            if word in schema:
                branches = [self._expand(one, open_) for one in schema[word]]
                factors += branches if word == "allOf" else [[one for branch in branches for one in branch]]
        count = 1
        for factor in factors:
            count *= len(factor)
        if count > _MOST_ALTERNATIVES:
            raise _UnclearError(f"{self._narrow} has too many alternatives to be compared")
        return [[one for group in choice for one in group] for choice in product(*factors)]

    def _part(self, part: _Part, wide: Schema, path: str, open_: tuple[str, ...]) -> _Result:
        """Compare the values of one kind with `wide`."""
        if isinstance(wide, bool):
            return _Result() if wide else self._none(part, path)
        if part.values is not None:
            opaque = _OPAQUE_FOR_VALUES & wide.keys()
            result = self._values(part, {key: one for key, one in wide.items() if key not in opaque}, path)
            for word in sorted(opaque):
                result.problems += self._opaque(part, word, wide[word], path)
            return result
        if not _takes_kind(wide, part.kind):
            return self._none(part, path)
        results = [*self._nested(part, wide, path, open_), self._own(part, wide, path)]
        told = [one for result in results for one in result.problems]
        lacks = results[0].lacks if len(results) == 1 and len(told) == 1 else None
        return _Result(told, any(result.apart for result in results), lacks)

    def _none(self, part: _Part, path: str) -> _Result:
        kind = "integer" if part.whole else part.kind
        problem = Problem(path, f"{self._narrow} has the type {kind}, {self._wide} has not")
        return _Result([problem], apart=True, lacks=kind)

    def _values(self, part: _Part, wide: dict[str, Any], path: str) -> _Result:
        """Try values that can be listed, one by one."""
        assert part.values is not None  # asked by the caller
        if not _takes_kind(wide, part.kind):
            return self._none(part, path)
        told = [(one, fits(wide, one, self._wide_root)) for one in part.values]
        out = [json_text(value, 60) for value, verdict in told if verdict is False]
        unclear = [json_text(value, 60) for value, verdict in told if verdict is None]
        made = []
        if out:
            more = f" and {len(out) - 5} more" if len(out) > 5 else ""
            made.append(Problem(path, f"{self._narrow} has {', '.join(out[:5])}{more}, {self._wide} has not"))
        if unclear:
            made.append(Problem(path, f"whether {self._wide} has {unclear[0]} can't be told", False))
        return _Result(made, apart=len(out) == len(told))

    def _nested(self, part: _Part, wide: dict[str, Any], path: str, open_: tuple[str, ...]) -> Iterable[_Result]:
        """Compare with the schemas that a schema is put together from."""
        if "$ref" in wide:
            name = wide["$ref"]
            target = resolve(name, self._wide_root)
            if name in open_ or target is None:
                yield _Result([Problem(path, f"the reference {name!r} of {self._wide} leads nowhere", False)])
            else:
                yield self._part(part, target, path, (*open_, name))
        for one in wide.get("allOf", []):
            yield self._part(part, one, path, open_)
        if "anyOf" in wide:
            yield self._any_of(part, wide["anyOf"], path, open_)

    def _any_of(self, part: _Part, branches: list[Schema], path: str, open_: tuple[str, ...]) -> _Result:
        trials = [self._part(part, one, path, open_) for one in branches]
        if any(not trial.problems for trial in trials):
            return _Result()
        near = [trial for trial in trials if not trial.apart]
        if not near:
            return trials[0] if len(trials) == 1 else self._none(part, path)
        if len(near) == 1:
            return near[0]
        return _Result(
            [Problem(path, f"no single alternative of {self._wide} takes each {part.kind} of {self._narrow}", False)]
        )

    def _own(self, part: _Part, wide: dict[str, Any], path: str) -> _Result:
        """Compare with the keywords of a schema itself."""
        told: list[Problem] = []
        if part.kind == "number" and not part.whole and "number" not in _kinds(wide):
            problem = Problem(path, f"{self._narrow} has the type number, {self._wide} integer")
            return _Result([problem, *self._numbers(part, {**wide, "type": "number"}, path).problems], lacks="number")
        if "enum" in wide or "const" in wide:  # the values of this part can't be listed
            members = wide["enum"] if "enum" in wide else [wide["const"]]
            told.append(
                Problem(path, f"{self._narrow} has any {part.kind}, {self._wide} {json_text(members, 60)} alone")
            )
        for word in wide:
            if word not in READ | SAID or word in ("oneOf", "pattern"):
                told += self._opaque(part, word, wide[word], path)
        kinds = {"number": self._numbers, "string": self._sizes, "array": self._arrays, "object": self._objects}
        if part.kind in kinds:
            result = kinds[part.kind](part, wide, path)
            return _Result(told + result.problems, result.apart)
        return _Result(told)

    def _opaque(self, part: _Part, word: str, value: Any, path: str) -> Iterable[Problem]:
        """Compare a keyword that is not looked into."""
        if word == "pattern" and part.kind != "string":
            return
        mine = part.all(word)
        if word in _OPAQUE and "$ref" not in repr(value) and any(same(value, one) for one in mine):
            return
        if word in ("format", "contentEncoding", "contentMediaType", "pattern") and part.kind == "string" and not mine:
            yield Problem(path, f"{self._wide} has the {word} {json_text(value, 60)}, {self._narrow} none")
        elif word not in ("format", "contentEncoding", "contentMediaType") or part.kind == "string":
            texts = [json_text(one, 60) for one in (*mine, value)]
            both = f"{texts[0]} of {self._narrow} and " if mine else ""
            yield Problem(path, f"the {word} {both}{texts[-1]} of {self._wide} can't be compared", False)

    def _numbers(self, part: _Part, wide: dict[str, Any], path: str) -> _Result:
        told = []
        other = _Part("number", [{**wide, "type": "integer"} if part.whole else wide], self._wide_root)
        for word, mine, theirs, sign in (
            ("minimum", part.low(), other.low(), 1),
            ("maximum", part.high(), other.high(), -1),
        ):
            bound, outside = theirs
            if bound is None:
                continue
            own, own_outside = mine
            if own is None or sign * own < sign * bound or (own == bound and outside and not own_outside):
                has = f"the {word} {_number_text(own, own_outside)}" if own is not None else f"no {word}"
                told.append(Problem(path, f"{self._narrow} has {has}, {self._wide} {_number_text(bound, outside)}"))
        if "multipleOf" in wide:
            step = wide["multipleOf"]
            if not any(is_multiple(one, step) for one in [*part.all("multipleOf"), *([1] if part.whole else [])]):
                told.append(Problem(path, f"{self._wide} has multiples of {step} alone, {self._narrow} others too"))
        return _Result(told)

    def _sizes(self, part: _Part, wide: dict[str, Any], path: str) -> _Result:
        """Compare how long texts, lists and objects may be."""
        word = {"string": "Length", "array": "Items", "object": "Properties"}[part.kind]
        least, most = part.least(f"min{word}"), part.most(f"max{word}")
        if part.kind == "object":
            least = max([least, *(len(set(one)) for one in part.all("required"))])
            closed = [one for one in part.schemas if one.get("additionalProperties") is False]
            most = min([most, *(len(one.get("properties", {})) for one in closed if "patternProperties" not in one)])
        told = []
        if least < wide.get(f"min{word}", 0):
            told.append(Problem(path, f"{self._narrow} has min{word} {least}, {self._wide} {wide[f'min{word}']}"))
        if most > wide.get(f"max{word}", float("inf")):
            shown = "no" if most == float("inf") else "the"
            text = f"{self._narrow} has {shown} max{word}{'' if shown == 'no' else f' {most}'}"
            told.append(Problem(path, f"{text}, {self._wide} {wide[f'max{word}']}"))
        return _Result(told)

    def _arrays(self, part: _Part, wide: dict[str, Any], path: str) -> _Result:
        told = self._sizes(part, wide, path).problems
        most = part.most("maxItems")
        if wide.get("uniqueItems") is True and True not in part.all("uniqueItems") and most > 1:
            told.append(Problem(path, f"{self._wide} has each item once, {self._narrow} has not"))
        places = max(len(one) for one in [wide.get("prefixItems", []), *part.all("prefixItems")])
        apart = False
        for at in range(min(places, most)):
            result = self.within([_item(one, at) for one in part.schemas], _item(wide, at), f"{path}[{at}]")
            told += result.problems
            apart = apart or (result.apart and part.least("minItems") > at)
        if most > places:
            result = self.within([one.get("items", True) for one in part.schemas], wide.get("items", True), f"{path}[]")
            told += result.problems
            apart = apart or (result.apart and part.least("minItems") > places)
        return _Result(told, apart)

    def _objects(self, part: _Part, wide: dict[str, Any], path: str) -> _Result:
        told = self._sizes(part, wide, path).problems
        required = {name for one in part.all("required") for name in one}
        named = {name for one in part.all("properties") for name in one}
        apart = False
        for name in wide.get("required", []):
            if name not in required:
                told.append(Problem(path + _step(name), f"{self._wide} requires it, {self._narrow} does not"))
        mine, theirs = [one.get("properties", {}) for one in part.schemas], wide.get("properties", {})
        silent = named and not any({"additionalProperties", "patternProperties"} & one.keys() for one in part.schemas)
        for name in sorted(named if silent else named | theirs.keys()):  # see the docstring of this module
            schemas = [
                known[name] if name in known else _rest(one) for known, one in zip(mine, part.schemas, strict=True)
            ]
            other = theirs[name] if name in theirs else wide.get("additionalProperties", True)
            result = self.within(schemas, other, path + _step(name))
            told += result.problems
            apart = apart or (result.apart and name in required)
        rest = [_rest(one) for one in part.schemas]
        others = wide.get("additionalProperties", True)
        if others is not False:
            told += self.within(rest, others, f"{path}.*").problems
        elif False not in rest:
            told.append(Problem(path, f"{self._wide} refuses keys that it does not name, {self._narrow} does not"))
        if "propertyNames" in wide:
            told += self._keys(part, wide["propertyNames"], named, closed=False in rest, path=path)
        return _Result(told, apart)

    def _keys(self, part: _Part, wide: Schema, named: set[str], *, closed: bool, path: str) -> list[Problem]:
        own = part.all("propertyNames")
        if closed:
            own = [*own, {"enum": sorted(named)}]
        return self.within([{"type": "string"}, *own], wide, f"{path}.*").problems


#: With one of these, a value is not tried by itself: whether it fits would stay open.
_OPAQUE_FOR_VALUES = frozenset({"contentEncoding", "contentMediaType", "format", "not", "type_name"})


def _kinds(schema: dict[str, Any]) -> list[str]:
    kinds = schema.get("type", ["number"])
    return kinds if isinstance(kinds, list) else [kinds]


def _takes_kind(schema: dict[str, Any], kind: str) -> bool:
    if "type" not in schema:
        return True
    kinds = _kinds(schema)
    return kind in kinds or (kind == "number" and "integer" in kinds)


def _item(schema: dict[str, Any], at: int) -> Schema:
    places: list[Schema] = schema.get("prefixItems", [])
    return places[at] if at < len(places) else schema.get("items", True)


def _rest(schema: dict[str, Any]) -> Schema:
    """Return the schema of the keys that are not named; with patterns, they may be anything."""
    return True if "patternProperties" in schema else schema.get("additionalProperties", True)


def _step(name: str) -> str:
    from octonode_sdk.faults import path_text

    return path_text((None, name), "")


def _number_text(bound: Fraction, outside: bool) -> str:
    shown = str(bound) if bound.denominator == 1 else str(float(bound))
    return f"{shown} (not included)" if outside else shown
