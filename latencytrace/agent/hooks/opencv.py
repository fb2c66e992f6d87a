"""Images and videos that a request reads, changes and writes with OpenCV."""

from typing import Final

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.model.stage import Stage

_BEFORE: Final = (
    "imread", "imdecode", "resize", "cvtColor", "warpAffine", "warpPerspective", "GaussianBlur",
    "VideoCapture.read",
)  # fmt: skip
_AFTER: Final = ("imencode", "imwrite", "VideoWriter.write")
_counted: Final = CountWithin()  # a program may call several of them for each frame


class OpencvHook(Hook):
    """Times its functions, which are in C, within a request: of each span the first 256."""

    requires = (
        "opencv-python-headless >= 4.5",
        "opencv-python >= 4.5",
        "opencv-contrib-python-headless >= 4.5",
        "opencv-contrib-python >= 4.5",
    )
    patches = tuple(
        first_of_each_span(
            Patch("cv2", name, stage, part_of=(Stage.POSTPROCESS,), within=True), counted=_counted
        )
        for stage, names in ((Stage.PREPROCESS, _BEFORE), (Stage.POSTPROCESS, _AFTER))
        for name in names
    )
