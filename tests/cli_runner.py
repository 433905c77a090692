"""Commands as a shell would run them."""

from typer.testing import CliRunner

from bayesmkl.cli import app


def run(*arguments):
    """Run a command; return exit code, stdout, stderr on one line each."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.stdout.split()), " ".join(result.stderr.split())
