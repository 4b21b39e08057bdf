"""How values go over NodeTool's wire: by the one policy of docs/values.md (VAL-11, VAL-12, VAL-17, VAL-19)."""

from __future__ import annotations

from octonode_sdk.values import Policy

from .frames import large_or_copied

TYPE_CHECKING = False
if TYPE_CHECKING:
    from octonode_sdk.nodes import Node

__all__ = ["POLICY", "policy_of"]

#: The wire has bytes, NaN and infinity (VAL-9, VAL-10); its host reads no keys but texts (VAL-13).
POLICY = Policy(non_finite="keep", raw_bytes=True, text_keys=True)


def policy_of(node: Node) -> Policy:
    """Return how a node's outputs go over the wire: its own wishes first (VAL-15), large bytes uncopied (VAL-14)."""
    own = node.policy
    return Policy(
        non_finite=POLICY.non_finite if own.non_finite == "error" else own.non_finite,
        big_integers=own.big_integers,
        raw_bytes=POLICY.raw_bytes,
        text_keys=POLICY.text_keys,
        wrap_bytes=large_or_copied,
    )
