"""The function of `light.py` with no hint and no import: the strict target of the bare runner."""
# mypy: disable-error-code="no-untyped-def"


def quote(
    customer,
    prices,
    quantities=None,
    currency="EUR",
    rounding=2,
    discount=None,
    reference=None,
    labels=None,
    gift=False,
):
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
