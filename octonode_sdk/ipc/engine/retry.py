"""Pure: whether a failed call is tried again, and after how long (ENG-29)."""

from __future__ import annotations

from .limits import checked_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .answers import Answer

__all__ = ["ONCE", "RetryPolicy"]


class RetryPolicy:
    """How often a call is tried. What decides is the error's `retryable` alone, never its code (ENG-12).

    Args:
        attempts: How often a call is tried at most, the first time included.
        backoff: Seconds before the second attempt.
        factor: By what each further wait is longer than the one before.
        jitter: By what part of itself a wait is made shorter or longer by chance, 0 to 1, so that calls that failed
            together do not come back together.
        longest: Longest wait in seconds, the jitter included.
    """

    __slots__ = ("attempts", "backoff", "factor", "jitter", "longest")

    def __init__(
        self,
        *,
        attempts: int = 3,
        backoff: float = 0.2,
        factor: float = 2.0,
        jitter: float = 0.1,
        longest: float = 30.0,
    ) -> None:
        self.attempts: int = checked_number("attempts", attempts, least=1, whole=True)
        self.backoff: float = checked_number("backoff", backoff, least=0)
        self.factor: float = checked_number("factor", factor, least=1)
        self.jitter: float = checked_number("jitter", jitter, least=0)
        if self.jitter > 1:
            raise ValueError(f"jitter is {jitter!r}; expected a part, from 0 to 1")
        self.longest: float = checked_number("longest", longest, least=0)

    def wait_before(self, attempt: int, chance: float) -> float:
        """Return how many seconds to wait before an attempt.

        Args:
            attempt: Which one, from 2 on.
            chance: From 0 to 1.
        """
        try:
            plain = self.backoff * self.factor ** (attempt - 2)
        except OverflowError:
            plain = self.longest
        return min(self.longest, min(plain, self.longest) * (1 + self.jitter * (2 * chance - 1)))

    def wait_after(
        self, answer: Answer, attempt: int, *, left: float | None, random: Callable[[], float]
    ) -> float | None:
        """Return how many seconds to wait until the next attempt, or None where the answer is the last word.

        Args:
            answer: Of the attempt that has ended.
            attempt: Its number, from 1 on.
            left: Seconds until the call's deadline, or None without one; a wait that does not end before it is none.
            random: Returns a number from 0 to 1.
        """
        if answer.error is None or not answer.error["retryable"] or attempt >= self.attempts:
            return None
        wait = self.wait_before(attempt + 1, random())
        return None if left is not None and wait >= left else wait


#: The policy of an engine that was given none.
ONCE = RetryPolicy(attempts=1)
