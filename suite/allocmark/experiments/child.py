"""A child: ``python -m allocmark.experiments.child``, started by the launcher for one request.

One JSON request on standard input, then a line ``go`` when it is this child's turn: in between
it imports what is slow, so that one child's imports overlap another's measurement. Readings go
to the file descriptor named on the command line; standard output and error stay the program's.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

from allocmark.experiments.catalog import experiment
from allocmark.experiments.core.recorder import Recorder, in_words
from allocmark.experiments.core.request import Request
from allocmark.machine.emulated import computed_values_copied
from allocmark.schema.notes import COMPUTED_VALUES_COPIED, START
from allocmark.system.errors import NotMeasurableError
from allocmark.system.lifetime import end_with_parent


def main(pipe: int) -> int:
    """Serve one request; returns the exit code."""
    end_with_parent()
    request = Request.from_json(json.loads(sys.stdin.readline()))
    chosen = experiment(request.experiment)
    with os.fdopen(pipe, "w") as stream:
        recorder = Recorder(stream)
        try:
            measure = chosen.prepare(request)
            if sys.stdin.readline().strip() != "go":
                return 0  # The parent has gone or has given up: nothing is to be measured.
            measure(recorder)
        except NotMeasurableError as error:
            recorder.failure(error.stage, in_words(error))
        except Exception as error:
            traceback.print_exc()
            recorder.failure(START, in_words(error))
        if computed_values_copied():
            # What follows from them (a size, a branch) is not what a GPU would have done.
            recorder.note(COMPUTED_VALUES_COPIED, True)
        recorder.done()
        # Interpreter exit runs destructors of frameworks that may hang or crash; all is reported.
        stream.flush()
        sys.stdout.flush()
        os._exit(0)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1])))
