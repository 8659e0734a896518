"""The error for bad input, which commands turn into one line and exit code 2."""


class UserError(ValueError):
    """Input that cannot be used: an option, a file, a position, a call.

    The message is for people: it names the value and the remedy. Commands print it as one line and
    exit with code 2. Any other `ValueError`, such as one of NumPy or JAX, is a fault of the program
    and keeps its traceback. Games and networks of your own may raise it too.
    """


def reason_of(error: BaseException) -> str:
    """Returns the first line of an error's message without Flax's address; or its type."""
    text = str(error).strip() or type(error).__name__
    return text.split("\n")[0].split(" (https:")[0]
