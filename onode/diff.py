"""Pure: what has changed between two sets of nodes, and whether workflows that ran with the old ones run with the new.

The rules: an input may take more and never less; an output may give less and never more, and goes on being there; a
port may be renamed only if it still takes its old name; texts and the order of ports break nothing. docs/onode-diff.md
is the page for users.
"""

from __future__ import annotations

from octonode_sdk.errors import shorten
from octonode_sdk.faults import path_text

from .containment import problems
from .entries import FLAGS, manifest_of
from .errors import UsageError
from .fits import SAID, bare, fault_of
from .words import amount, json_text, schema_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from .fits import Schema

__all__ = ["BREAKING", "COMPATIBLE", "UNCLEAR", "Change", "Nodes", "compare", "read_nodes", "summary", "verdict_of"]

COMPATIBLE = "compatible"
BREAKING = "breaking"
#: Whether old workflows run can't be decided; it counts as breaking unless the caller says otherwise.
UNCLEAR = "unclear"

_OLD, _NEW = "the old type", "the new type"


class Change:
    """One change of one node.

    Attributes:
        node: The node's id.
        path: Where in the manifest, such as `$.inputs.box[].width`; `$` is the node itself.
        verdict: COMPATIBLE, BREAKING or UNCLEAR.
        reason: What has changed, in words.
    """

    __slots__ = ("node", "path", "reason", "verdict")

    def __init__(self, node: str, path: str, verdict: str, reason: str) -> None:
        self.node, self.path, self.verdict, self.reason = node, path, verdict, reason

    def __repr__(self) -> str:
        return f"Change({self.node!r}, {self.path!r}, {self.verdict!r}, {self.reason!r})"

    def to_dict(self) -> dict[str, str]:
        """Return it as `--json` prints it."""
        return {"node": self.node, "path": self.path, "verdict": self.verdict, "reason": self.reason}


class Nodes:
    """Manifests by id.

    Attributes:
        manifests: The manifests; entries of `discover` in the form of manifests.
        host: "octonode" or "nodetool".
    """

    __slots__ = ("host", "manifests")

    def __init__(self, manifests: dict[str, dict[str, Any]], host: str) -> None:
        self.manifests, self.host = manifests, host


# Reading


def read_nodes(value: Any, where: str) -> Nodes:
    """Read what a file holds: one node, a list or a map of nodes, or an answer that carries them.

    Nodes are manifests, the envelopes that `describe` is answered with, or the entries that NodeTool's `discover`
    reports.

    Args:
        value: The JSON value.
        where: The file, for messages.

    Raises:
        UsageError: It holds no nodes, or some that can't be compared.
    """
    found: dict[str, dict[str, Any]] = {}
    hosts: set[str] = set()
    for one in _nodes_in(value, where, 0):
        is_entry = "node_type" in one
        try:
            manifest = manifest_of(one) if is_entry else one
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise UsageError(f"{where}: {shorten(one)} is no entry of discover: {error!r}") from error
        id_ = manifest["id"]
        if not isinstance(id_, str):
            raise UsageError(f"{where}: the id of a node is {shorten(id_)}; expected a text")
        if id_ in found:
            raise UsageError(f"{where}: the node {id_!r} is there twice; ids are unique")
        _check(manifest, f"{where}: node {id_!r}")
        found[id_] = manifest
        hosts.add("nodetool" if is_entry else "octonode")
    if len(hosts) > 1:
        raise UsageError(f"{where}: holds manifests of Octonode and entries of NodeTool; compare one kind at a time")
    return Nodes(found, next(iter(hosts), "octonode"))


def _nodes_in(value: Any, where: str, depth: int) -> Iterator[dict[str, Any]]:
    """Yield the nodes in a value, out of the envelopes and lists around them."""
    way_out = "expected a manifest, as `onode describe --json` prints it, or several"
    if depth > 4 or not isinstance(value, (dict, list)):
        raise UsageError(f"{where}: {shorten(value)} is no node; {way_out}")
    if isinstance(value, list):
        for one in value:
            yield from _nodes_in(one, where, depth + 1)
        return
    if "node_type" in value or ("id" in value and not isinstance(value["id"], (dict, list))):
        yield value
        return
    if value.get("status") == "error":
        message = (value.get("error") or {}).get("message") if isinstance(value.get("error"), dict) else None
        raise UsageError(f"{where}: holds an answer that failed: {shorten(message)}; describe the node again")
    for key in ("manifest", "data", "nodes", "manifests"):
        if isinstance(value.get(key), (dict, list)):
            yield from _nodes_in(value[key], where, depth + 1)
            return
    if not value or not all(isinstance(one, dict) for one in value.values()):
        raise UsageError(f"{where}: holds an object that is no node, {shorten(value)}; {way_out}")
    for one in value.values():
        yield from _nodes_in(one, where, depth + 1)


def _check(manifest: dict[str, Any], where: str) -> None:
    """Refuse what the judge could not read."""
    for key in ("inputs", "outputs", "setup"):
        if key in manifest:
            _check_schema(manifest[key], f"{where}, {key}")
    for key in ("defaults", "service", "nodetool"):
        if not isinstance(manifest.get(key, {}), dict):
            raise UsageError(f"{where}: {key!r} is {shorten(manifest[key])}; expected an object")
    for method in _methods(manifest, where).values():
        for key in ("inputs", "outputs"):
            if key in method:
                _check_schema(method[key], f"{where}, method {method['name']!r}, {key}")
    _secrets(manifest, where)


def _check_schema(schema: Any, where: str) -> None:
    fault = fault_of(schema)
    if fault is not None:
        raise UsageError(f"{where}: {fault}")


def _methods(manifest: dict[str, Any], where: str = "") -> dict[str, dict[str, Any]]:
    methods = manifest.get("service", {}).get("methods", [])
    if not isinstance(methods, list) or not all(isinstance(one, dict) and "name" in one for one in methods):
        raise UsageError(f"{where}: the methods of the service are {shorten(methods)}; expected a list of objects")
    return {str(one["name"]): one for one in methods}


def _secrets(manifest: dict[str, Any], where: str = "") -> dict[str, bool]:
    """Return the secrets of a node, and whether each is required; a bare name is."""
    told: Any = [*(manifest.get("required_settings") or []), *(manifest.get("secrets") or [])]
    found = {}
    for one in told:
        name = one.get("name") if isinstance(one, dict) else one
        if not isinstance(name, str):
            raise UsageError(f"{where}: a secret is {shorten(one)}; expected the name of a variable")
        found[name] = bool(one.get("required", True)) if isinstance(one, dict) else True
    return found


# Judging


def verdict_of(changes: list[Change], *, allow_unclear: bool = False) -> str:
    """Return COMPATIBLE, or BREAKING if a change is; an unclear one counts as breaking unless it is allowed."""
    bad = (BREAKING,) if allow_unclear else (BREAKING, UNCLEAR)
    return BREAKING if any(one.verdict in bad for one in changes) else COMPATIBLE


def compare(old: Nodes, new: Nodes) -> list[Change]:
    """Return the changes from one set of nodes to another, node by node in the order of the old ones.

    Raises:
        UsageError: The two are of different hosts.
    """
    if old.manifests and new.manifests and old.host != new.host:
        raise UsageError(f"the old nodes are {old.host}'s and the new ones {new.host}'s; describe both for one host")
    changes: list[Change] = []
    added = [id_ for id_ in new.manifests if id_ not in old.manifests]
    for id_, manifest in old.manifests.items():
        if id_ in new.manifests:
            changes += _Judge(id_, manifest, new.manifests[id_]).changes()
            continue
        twin = next((one for one in added if _ports(new.manifests[one]) == _ports(manifest)), None)
        if twin is None:
            reason = f"removed{_new_name(id_, added)}"
        else:
            added.remove(twin)
            reason = f"renamed to {twin!r}, which has the same ports; give it its old id: workflows name nodes by it"
        changes.append(Change(id_, "$", BREAKING, reason))
    return [*changes, *(Change(id_, "$", COMPATIBLE, "added") for id_ in added)]


def _ports(manifest: dict[str, Any]) -> tuple[Any, Any]:
    return bare(manifest.get("inputs")), bare(manifest.get("outputs"))


class _Judge:
    """Judges one node."""

    def __init__(self, id_: str, old: dict[str, Any], new: dict[str, Any]) -> None:
        self._id, self._old, self._new = id_, old, new
        self._changes: list[Change] = []

    def _tell(self, path: str, verdict: str, reason: str) -> None:
        self._changes.append(Change(self._id, path, verdict, reason))

    def changes(self) -> list[Change]:
        self._scalars()
        self._secrets()
        for key, is_input in (("setup", True), ("inputs", True), ("outputs", False)):
            self._schemas(self._old.get(key), self._new.get(key), f"$.{key}", is_input, self._defaults(key))
        self._service()
        self._flags()
        return self._changes

    def _defaults(self, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
        if key != "inputs":
            return {}, {}
        return self._old.get("defaults", {}), self._new.get("defaults", {})

    def _scalars(self) -> None:
        kinds = [one.get("kind", "function") for one in (self._old, self._new)]  # MAN-9
        if kinds[0] != kinds[1]:
            self._tell("$.kind", BREAKING, f"{kinds[0]} is now {kinds[1]}")
        for key in ("language", "label", "description", "symbol", "icon", "config", "workflowId"):
            if self._old.get(key) != self._new.get(key):
                self._tell(f"$.{key}", COMPATIBLE, _changed(self._old, self._new, key))

    def _secrets(self) -> None:
        old, new = _secrets(self._old), _secrets(self._new)
        for name in sorted(old.keys() | new.keys()):
            if name not in new:
                self._tell("$.secrets", COMPATIBLE, f"{name} is not read any more")
            elif new[name] and not old.get(name, False):
                self._tell("$.secrets", BREAKING, f"{name} is required now: calls without it fail")
            elif name not in old:
                self._tell("$.secrets", COMPATIBLE, f"{name} is read where it is set")
            elif old[name] and not new[name]:
                self._tell("$.secrets", COMPATIBLE, f"{name} is not required any more")

    def _service(self) -> None:
        old, new = self._old.get("service", {}), self._new.get("service", {})
        if old.get("lifecycle") != new.get("lifecycle"):
            self._tell("$.service.lifecycle", BREAKING, _changed(old, new, "lifecycle"))
        before, after = _methods(self._old), _methods(self._new)
        for name, method in before.items():
            path = path_text((None, name), "$.service.methods")
            if name not in after:
                self._tell(path, BREAKING, f"removed{_new_name(name, [one for one in after if one not in before])}")
                continue
            if method.get("params") != after[name].get("params"):
                self._tell(f"{path}.params", BREAKING, _changed(method, after[name], "params"))
            for key, is_input in (("inputs", True), ("outputs", False)):
                self._schemas(method.get(key), after[name].get(key), f"{path}.{key}", is_input, ({}, {}))
        for name in after:
            if name not in before:
                self._tell(path_text((None, name), "$.service.methods"), COMPATIBLE, "added")

    def _flags(self) -> None:
        """Judge what NodeTool alone is told of a node."""
        old, new = self._old.get("nodetool", {}), self._new.get("nodetool", {})
        for key in FLAGS:
            before, after = old.get(key) or None, new.get(key) or None
            if before == after:
                continue
            if key == "is_streaming_output":
                reason = "streams now" if after else "does not stream any more"
                self._tell(f"$.{key}", UNCLEAR, f"{reason}: the nodes behind it run for each chunk of a stream")
            elif key in ("is_dynamic", "supports_dynamic_outputs") and not after:
                self._tell(f"$.{key}", BREAKING, "ports that the node has no name for are not taken any more")
            else:
                self._tell(f"$.{key}", COMPATIBLE, _changed(old, new, key))

    # Ports

    def _schemas(
        self, old: Schema | None, new: Schema | None, path: str, is_input: bool, defaults: tuple[Any, Any]
    ) -> None:
        """Judge the schema of all inputs or outputs: by ports where both are objects, else as a whole."""
        if old is None or new is None:
            self._undescribed(old is None, new is None, path, is_input)
            return
        if not (isinstance(old, dict) and isinstance(new, dict) and "properties" in old and "properties" in new):
            self._type(old, new, (old, new), path, is_input)
            return
        before, after = old["properties"], new["properties"]
        renamed = _renamed(before, after) if is_input else {}
        back = {name: earlier for earlier, name in renamed.items()}
        added = [name for name in after if name not in before and name not in back]
        for name in before:
            place = path_text((None, name), path)
            now = renamed.get(name, name)
            if now not in after:
                self._removed(name, before[name], {one: after[one] for one in added}, place, is_input)
                continue
            if now != name:
                self._tell(place, COMPATIBLE, f"renamed to {now!r}, which still takes the old name")
            self._required(name in old.get("required", ()), now in new.get("required", ()), place, is_input)
            if is_input:
                self._default(_default(name, before, defaults[0]), _default(now, after, defaults[1]), place)
            self._type(before[name], after[now], (old, new), place, is_input)
        for name in added:
            place = path_text((None, name), path)
            if is_input and name in new.get("required", ()):
                self._tell(
                    place, BREAKING, "added, and required: old workflows have no value for it; give it a default"
                )
            else:
                self._tell(place, COMPATIBLE, "added")
        if [renamed.get(name, name) for name in before if renamed.get(name, name) in after] != [
            name for name in after if name in before or name in back
        ]:
            self._tell(path, COMPATIBLE, "the order of the ports has changed")
        self._rest(old, new, path, is_input)

    def _undescribed(self, was: bool, is_: bool, path: str, is_input: bool) -> None:
        """Judge ports of which one side says nothing, so that they might be anything."""
        if was and not is_:
            self._tell(path, UNCLEAR if is_input else COMPATIBLE, "described now; nothing was said of it before")
        elif is_ and not was:
            self._tell(path, COMPATIBLE if is_input else UNCLEAR, "not described any more")

    def _removed(self, name: str, port: Schema, added: dict[str, Schema], place: str, is_input: bool) -> None:
        alike = [one for one, other in added.items() if bare(other) == bare(port)]
        if is_input and len(alike) == 1:
            hint = f"; if {alike[0]!r} is the same port under a new name, give it aliases=[{name!r}]"
        else:
            hint = "; workflows that set it lose the value" if is_input else "; what is joined to it gets nothing"
        self._tell(place, BREAKING, f"removed{hint}")

    def _required(self, before: bool, after: bool, place: str, is_input: bool) -> None:
        if before == after:
            return
        if is_input:
            verdict, reason = (BREAKING, "required now") if after else (COMPATIBLE, "not required any more")
        else:
            verdict, reason = (COMPATIBLE, "always there now") if after else (BREAKING, "may be absent now")
        self._tell(place, verdict, reason)

    def _default(self, before: list[Any], after: list[Any], place: str) -> None:
        if json_text(before) == json_text(after):  # as JSON: 1 and true differ
            return
        words = [json_text(one[0], 60) if one else "none" for one in (before, after)]
        self._tell(place, COMPATIBLE, f"default {words[0]} is now {words[1]}: calls that leave it out may differ")

    def _type(self, old: Schema, new: Schema, roots: tuple[Schema, Schema], path: str, is_input: bool) -> None:
        """Judge the type of a port; inputs may take more, outputs may give less."""
        for key in ("title", "description", "examples"):
            if isinstance(old, dict) and isinstance(new, dict) and old.get(key) != new.get(key):
                self._tell(path, COMPATIBLE, f"{key} {_changed(old, new, key)}")
        old_root, new_root = roots
        if not _differ(old, new, old_root, new_root):
            return
        found = problems(
            old if is_input else new,
            new if is_input else old,
            narrow_root=old_root if is_input else new_root,
            wide_root=new_root if is_input else old_root,
            names=(_OLD, _NEW) if is_input else (_NEW, _OLD),
            path=path,
        )
        for one in found:
            verdict = BREAKING if one.sure else UNCLEAR
            what = "take less" if is_input else "give more"
            said = what.replace("e ", "es ") if one.sure else f"may {what}"
            self._tell(one.path, verdict, f"{said}: {one.message}")
        if not found:
            words = [_type_text(schema, root) for schema, root in ((old, old_root), (new, new_root))]
            said = f": {words[0]} is now {words[1]}" if words[0] != words[1] else ""
            self._tell(path, COMPATIBLE, f"{'takes more, or as much' if is_input else 'gives less, or as much'}{said}")

    def _rest(self, old: dict[str, Any], new: dict[str, Any], path: str, is_input: bool) -> None:
        """Judge what is said of the ports together, and of keys that no port has."""
        ports = {"properties", "required"}
        before, after = ({key: one for key, one in schema.items() if key not in ports | SAID} for schema in (old, new))
        if not is_input and old.get("additionalProperties", True) in (True, False):
            # An output that is added breaks nothing, whether or not there were to be others.
            before.pop("additionalProperties", None)
            after.pop("additionalProperties", None)
        self._type(before, after, (old, new), path, is_input)


def _new_name(name: str, added: list[str]) -> str:
    from difflib import get_close_matches

    near = get_close_matches(name, added, n=1)
    return f"; if {near[0]!r} is its new name, give the old one back" if near else ""


def _renamed(before: dict[str, Any], after: dict[str, Any]) -> dict[str, str]:
    """Return the new name of each port that is there under an alias."""
    found: dict[str, str] = {}
    for name, port in after.items():
        aliases = port.get("aliases") if isinstance(port, dict) and name not in before else None
        for alias in aliases if isinstance(aliases, list) else ():
            if alias in before and alias not in after and name not in found.values():
                found[alias] = name
    return found


def _default(name: str, ports: dict[str, Any], defaults: dict[str, Any]) -> list[Any]:
    """Return the default of a port in a list, or an empty one where there is none."""
    port = ports[name]
    if name in defaults:
        return [defaults[name]]
    return [port["default"]] if isinstance(port, dict) and "default" in port else []


def _changed(old: dict[str, Any], new: dict[str, Any], key: str) -> str:
    """Return what has become of a key, in words."""
    if key not in old:
        return f"added: {json_text(new[key], 60)}"
    if key not in new:
        return f"removed, was {json_text(old[key], 60)}"
    return f"changed from {json_text(old[key], 60)} to {json_text(new[key], 60)}"


def _differ(old: Schema, new: Schema, old_root: Schema, new_root: Schema) -> bool:
    """Tell whether two schemas differ in what they say of values."""
    if json_text(bare(old)) != json_text(bare(new)):
        return True
    return "$ref" in repr(old) and json_text(_definitions(old_root)) != json_text(_definitions(new_root))


def _definitions(root: Schema) -> Any:
    return bare(root).get("$defs") if isinstance(root, dict) else None


def _type_text(schema: Schema, root: Schema) -> str:
    """Return a type in a few words; NodeTool's types by their name."""
    if isinstance(schema, bool):
        return "anything" if schema else "nothing"
    name = schema.get("properties", {}).get("type")
    if isinstance(name, dict) and schema.get("required") == ["type"] and isinstance(name.get("const"), str):
        return str(name["const"])
    if schema.keys() - SAID == {"anyOf"}:
        return " or ".join(_type_text(one, root) for one in schema["anyOf"])
    return schema_text(schema, root if isinstance(root, dict) else {})


def summary(changes: list[Change]) -> str:
    """Return the line that stands under the changes."""
    if not changes:
        return "no changes"
    counts = [(word, sum(one.verdict == word for one in changes)) for word in (BREAKING, UNCLEAR, COMPATIBLE)]
    return f"{amount(len(changes), 'change')}: " + ", ".join(f"{count} {word}" for word, count in counts if count)
