"""Audio made on the spot."""

import math
import wave
from array import array
from pathlib import Path


def write_tone(file: Path) -> Path:
    """Write a tenth of a second of a tone."""
    tone = array("h", (round(1000 * math.sin(number / 9)) for number in range(1600)))
    with wave.open(str(file), "wb") as written:
        written.setparams((1, 2, 16_000, 0, "NONE", ""))
        written.writeframes(tone.tobytes())
    return file
