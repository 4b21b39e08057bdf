"""Options of `@node` that have no row in tests/data/hints/refused.json: what is kept of them, and what is refused."""

from typing import Any

import pytest

from octonode_sdk import DefinitionError, node
from octonode_sdk.nodes import node_of
from tests.portkit import define


def test_recommended_models_are_kept_as_copies() -> None:
    """MAN-19: dicts of JSON with an id and a type, in the order in which they were given."""
    model: dict[str, Any] = {"id": "org/model", "type": "hf.model", "allow_patterns": ("*.json",), "path": None}

    @node(recommended_models=(one for one in [model, {"id": "b", "type": "hf.flux"}]))
    def fn() -> None: ...

    model["id"] = "changed"
    kept = {"id": "org/model", "type": "hf.model", "allow_patterns": ["*.json"], "path": None}
    assert node_of(fn).recommended_models == (kept, {"id": "b", "type": "hf.flux"})
    assert define({}).recommended_models == ()


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ("org/model", r"recommended_models='org/model' is no list; write recommended_models=\[\{'id': "),
        (3, r"recommended_models=3 is no list; write"),
        (["org/model"], r"recommended_models holds what is no JSON object; give dicts such as \{'id': "),
        ({"id": "a", "type": "b"}, r"recommended_models holds what is no JSON object; give dicts"),
        (
            [{"id": "a", "type": "b", "x": object()}],
            r"recommended_models holds what is no JSON object \(\$\.x: a value of type object has",
        ),
        ([{"id": "a"}], r"recommended_models holds a model whose 'type' is None; give dicts"),
        ([{"id": "", "type": "b"}], r"recommended_models holds a model whose 'id' is ''; give dicts"),
        (
            [{"id": "a", "type": "b", "name": "\ud800"}],
            r"recommended_models holds a text at \$\.name .* no Unicode text",
        ),
    ],
    ids=range(8),
)
def test_what_is_no_recommended_model_is_refused_with_the_way_out(models: Any, message: str) -> None:
    """MAN-19."""
    with pytest.raises(DefinitionError, match=f"node 'fn': {message}"):

        @node(recommended_models=models)
        def fn() -> None: ...
