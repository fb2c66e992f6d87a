"""Images that a request decodes, changes and encodes with Pillow."""

from typing import Any, Final

from latencytrace.agent.timing.hook import Hook, Patch
from latencytrace.agent.toolkit.calls import first_of_each_span
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
