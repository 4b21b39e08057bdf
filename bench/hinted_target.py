"""The function of `light.py` with its hints from `typing`, without the decorator and `Field`.

It shows what the hints alone cost, whichever SDK reads them afterwards.
"""

from typing import Annotated, Literal, Optional


def quote(
    customer: Annotated[str, {"min_length": 1, "max_length": 200, "description": "who asks"}],
    prices: Annotated[
        dict[str, Annotated[float, {"ge": 0}]],
        {"max_length": 1000, "description": "price of one piece, by article"},
    ],
    quantities: Annotated[dict[str, int] | None, {"description": "pieces, by article; 1 where absent"}] = None,
    currency: Annotated[Literal["EUR", "USD", "GBP"], {"description": "of prices and total"}] = "EUR",
    rounding: Annotated[int, {"ge": 0, "le": 6, "description": "digits behind the point"}] = 2,
    discount: Annotated[
        Optional[float],  # noqa: UP045 - the spelling is part of what is measured
        {"ge": 0, "lt": 1, "description": "part of the total to take off"},
    ] = None,
    reference: Annotated[int | str | None, {"description": "the customer's own"}] = None,
    labels: Annotated[list[int | str] | None, {"max_length": 20, "description": "free tags"}] = None,
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
