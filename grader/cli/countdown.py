"""A prompt that shows how much time is left."""

from __future__ import annotations

import sys
from collections.abc import Callable

from grader.quiz.interview.session import TimeUp
from grader.quiz.interview.state import clock


def asker(left: Callable[[], float], plain: bool) -> Callable[[str], str]:
    """What reads a line. On a terminal the time that is left runs down in the prompt while one types."""
    if plain or not (sys.stdin.isatty() and sys.stdout.isatty()):
        return lambda prompt: input(f"[{clock(left())} left] {prompt}")
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app

    session: PromptSession[str] = PromptSession(refresh_interval=1.0)

    def ask(prompt: str) -> str:
        def message() -> str:
            if left() <= 0 and get_app().is_running and not get_app().is_done:
                get_app().exit(exception=TimeUp())
            return f"[{clock(left())} left] {prompt}"

        return session.prompt(message)

    return ask
