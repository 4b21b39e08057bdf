"""The options of `@node`: what an author says of a node beside its hints, checked (MAN-19)."""

from __future__ import annotations

from .errors import DefinitionError, Fault
from .faults import path_text
from .values import Policy, plain

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .secrets import Secret

__all__ = ["check_options"]

_TEXTS = ("id", "namespace", "label", "description", "icon", "symbol", "output", "workflow_id")
_POLICIES = (("non_finite", ("error", "null", "text")), ("big_integers", ("error", "text")))


def check_options(given: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the options of `@node` as the node keeps them.

    Args:
        given: Every option, by name.
        name: Name of the function; the id, where none is given.

    Returns:
        The same keys: `id` is always a text, `retry_on` and `recommended_models` are tuples, `secrets` a list of
        `Secret`, `config` plain JSON or None.

    Raises:
        DefinitionError: An option is wrong.
    """
    made = dict(given)
    if given["id"] is None:
        made["id"] = name
    made["retry_on"] = _listed(given, "retry_on", "ConnectionError", name)
    for key in _TEXTS:
        value = made[key]
        if value is not None and (type(value) is not str or not _is_unicode(value)):
            raise DefinitionError(f"{key}={value!r} is no text", node=name, way_out=f"write {key}='...'")
    node: str = made["id"]
    if not node or node != node.strip() or "\n" in node:
        raise DefinitionError(f"the id {node!r} is no name", node=name, way_out="give a text such as 'scale'")
    symbol = given["symbol"]
    if symbol is not None and not 1 <= len(symbol.encode("utf-16-le", "surrogatepass")) // 2 <= 16:
        raise DefinitionError(
            f"the symbol {symbol!r} has not 1 to 16 characters",
            node=node,
            way_out="use a short glyph (an emoji outside of the basic plane counts twice)",
        )  # MAN-5
    for key in ("workflow_id", "output"):
        if given[key] == "":
            raise DefinitionError(f"{key} is empty", node=node, way_out="leave it out or give a name")  # MAN-13
    if given["icon"] is not None:
        _check_icon(given["icon"], node)
    for key, allowed in _POLICIES:
        if given[key] not in allowed:
            way_out = f"use one of {', '.join(map(repr, allowed))}"
            raise DefinitionError(f"{key}={given[key]!r} is no policy", node=node, way_out=way_out)
    for cls in made["retry_on"]:
        if not (isinstance(cls, type) and issubclass(cls, BaseException)):
            raise DefinitionError(f"retry_on holds {cls!r}", node=node, way_out="list exception classes")
    vram = given["requires_vram_gb"]
    if vram is not None and not (type(vram) in (int, float) and 0 <= vram < float("inf")):
        way_out = "give gigabytes, such as 8"
        raise DefinitionError(f"requires_vram_gb={vram!r} is no amount", node=node, way_out=way_out)
    if given["config"] is not None:
        made["config"] = _object(given["config"], "config is no JSON object", "give a dict", node)  # MAN-12
    made["secrets"] = _secrets(_listed(given, "secrets", "'API_KEY'", name), node)
    models = _listed(given, "recommended_models", "{'id': 'org/model', 'type': 'hf.model'}", name)
    made["recommended_models"] = tuple(_model(one, node) for one in models)
    return made


def _listed(given: dict[str, Any], key: str, example: str, name: str) -> tuple[Any, ...]:
    """Return an option that holds several things. One text alone would be read letter by letter."""
    value = given[key]
    if isinstance(value, str) or not hasattr(value, "__iter__"):
        shown = value.__name__ if isinstance(value, type) else repr(value)
        raise DefinitionError(f"{key}={shown} is no list", node=name, way_out=f"write {key}=[{example}]")
    return tuple(value)


def _object(value: Any, problem: str, way_out: str, node: str) -> dict[str, Any]:
    """Return a given dict as plain JSON: a copy, so that later changes to it do not reach the node."""
    faults: list[Fault] = []
    made = plain(value, None, faults, Policy())
    if not isinstance(made, dict) or faults:
        why = f" ({faults[0].path}: {faults[0].message.partition(';')[0]})" if faults else ""
        raise DefinitionError(problem + why, node=node, way_out=way_out)
    return made


def _secrets(given: tuple[Any, ...], node: str) -> list[Secret]:
    if not given:
        return []
    from .secrets import Secret

    secrets = [one if isinstance(one, Secret) else Secret(one) for one in given]
    for secret in secrets:
        if type(secret.name) is not str or not secret.name.isidentifier():
            way_out = "name an environment variable, such as 'API_KEY'"
            raise DefinitionError(f"the secret {secret.name!r} is no name", node=node, way_out=way_out)
    return secrets


def _model(given: Any, node: str) -> dict[str, Any]:
    """Return one recommended model; beside `id` and `type` it may say what the host knows (name, repo_id, path)."""
    way_out = "give dicts such as {'id': 'org/model', 'type': 'hf.model'}"
    model = _object(given, "recommended_models holds what is no JSON object", way_out, node)
    from .shapes import find_surrogate

    broken = find_surrogate(model)
    if broken is not False:
        assert not isinstance(broken, bool)  # find_surrogate returns a path or False
        problem = f"recommended_models holds a text at {path_text(broken)} that is no Unicode text"
        raise DefinitionError(problem, node=node, way_out="take the lone surrogate out")
    for key in ("id", "type"):
        value = model.get(key)
        if type(value) is not str or not value:
            problem = f"recommended_models holds a model whose {key!r} is {value!r}"
            raise DefinitionError(problem, node=node, way_out=way_out)
    return model


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be sent: a lone surrogate can't."""
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)


def _check_icon(icon: str, node: str) -> None:
    from .icons import ICONS

    if icon in ICONS:
        return
    import difflib

    near = difflib.get_close_matches(icon, sorted(ICONS), n=3, cutoff=0.6)
    way_out = f"did you mean {' or '.join(map(repr, near))}?" if near else f"one of: {', '.join(sorted(ICONS))}"
    raise DefinitionError(f"the icon {icon!r} is not one that the engine draws", node=node, way_out=way_out)  # ICO-2
