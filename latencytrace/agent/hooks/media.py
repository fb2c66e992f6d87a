"""Images, videos and audio that a request reads, changes and writes."""

from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import CountWithin, first_of_each_span
from latencytrace.model.stage import Stage

_IMAGE: Final = "PIL.Image"


def _is_read(image: Any, *_: object, **__: object) -> bool:
    """Tell whether an opened image is decoded now: whatever is done with it asks for that."""
    return bool(image.tile)


def _change(target: str) -> Patch:
    # What is done with an answer's image is part of the answer.
    return Patch(_IMAGE, target, Stage.PREPROCESS, part_of=(Stage.POSTPROCESS,), within=True)


class PillowHook(Hook):
    """Times what takes long with an image, within a request: of each span the first 256."""

    requires = ("pillow >= 9.0",)
    patches = (
        first_of_each_span(
            Patch(
                "PIL.ImageFile",
                "ImageFile.load",
                Stage.PREPROCESS,
                part_of=(Stage.POSTPROCESS,),
                name="decode image",
                within=True,
            ),
            when=_is_read,
        ),
        *(
            first_of_each_span(_change(f"Image.{method}"))
            for method in ("convert", "resize", "thumbnail", "rotate", "transform", "filter")
        ),
        first_of_each_span(Patch(_IMAGE, "Image.save", Stage.POSTPROCESS, within=True)),
    )


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


class SoundfileHook(Hook):
    """Times whole files and blocks of one, within a request: of each span the first 256."""

    requires = ("soundfile >= 0.12",)
    patches = tuple(
        first_of_each_span(Patch("soundfile", target, stage, within=True))
        for target, stage in (
            ("read", Stage.PREPROCESS),
            ("SoundFile.read", Stage.PREPROCESS),
            ("write", Stage.POSTPROCESS),
            ("SoundFile.write", Stage.POSTPROCESS),
        )
    )
