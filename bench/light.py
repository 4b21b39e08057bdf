"""The light node that `run.py` measures: JSON scalars, Literal, Optional, unions, lists and dicts.

`bare_target.py` and `hinted_target.py` hold the same body without the SDK; `run.py` refuses to
measure as soon as the answers differ.
"""

from typing import Annotated, Literal, Optional

from octonode_sdk import Field, node


@node
def quote(
    customer: Annotated[str, Field(min_length=1, max_length=200, description="who asks")],
    prices: Annotated[
        dict[str, Annotated[float, Field(ge=0)]],
        Field(max_length=1000, description="price of one piece, by article"),
    ],
    quantities: Annotated[dict[str, int] | None, Field(description="pieces, by article; 1 where absent")] = None,
    currency: Annotated[Literal["EUR", "USD", "GBP"], Field(description="of prices and total")] = "EUR",
    rounding: Annotated[int, Field(ge=0, le=6, description="digits behind the point")] = 2,
    discount: Annotated[
        Optional[float],  # noqa: UP045 - the spelling is part of what is measured
        Field(ge=0, lt=1, description="part of the total to take off"),
    ] = None,
    reference: Annotated[int | str | None, Field(description="the customer's own")] = None,
    labels: Annotated[list[int | str] | None, Field(max_length=20, description="free tags")] = None,
    gift: bool = False,
) -> dict[str, str | int | float | list[str] | None]:
    """Price a quote.

    Args:
        gift: whether to wrap it.
    """
    total = 0.0
    for article, price in prices.items():
        total += price * (quantities or {}).get(article, 1)
    if discount is not None:
        total -= total * discount
    tags = [str(label) for label in labels or []]
    if gift:
        tags.append("gift")
    return {
        "title": f"{customer}: {len(prices)} articles",
        "total": round(total, rounding),
        "currency": currency,
        "reference": reference,
        "tags": tags,
    }
