"""Models that MLflow loads, and its server of them: `mlflow models serve`."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.model.stage import Stage

_SERVER: Final = "mlflow.pyfunc.scoring_server"


class MlflowHook(Hook):
    """Times a model of any flavour, and the reading and writing of what it is asked."""

    requires = ("mlflow >= 2.0", "mlflow-skinny >= 2.0")
    patches = (
        Patch("mlflow.pyfunc", "PyFuncModel.predict", Stage.FORWARD),
        Patch(_SERVER, "_parse_json_data", Stage.PREPROCESS, name="parse input", optional=True),
        Patch(_SERVER, "parse_csv_input", Stage.PREPROCESS, name="parse input"),
        Patch(_SERVER, "predictions_to_json", Stage.POSTPROCESS),
        Patch(_SERVER, "unwrapped_predictions_to_json", Stage.POSTPROCESS, optional=True),
    )
