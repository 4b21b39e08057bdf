"""The icons that the Octonode engine draws (ICO-1)."""

from __future__ import annotations

__all__ = ["ICONS"]

ICONS = frozenset(  # one text reads better than 53 quoted ones
    """
    arrow-up-down binary bomb boxes braces calculator calendar camera clock code copy-x database dices filter flag flask
    function git-branch git-merge group hook list-filter merge octagon-x package package-x pencil play regex repeat
    replace ruler scan-eye scissors search server-cog settings sigma split terminal test-tube text-cursor-input ticket
    truck type typescript ungroup variable wand wave webhook workflow x
    """.split()  # noqa: SIM905  # as above
)
