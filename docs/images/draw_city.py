"""Draw what `make run` shows, as it is: a broker, its pipeline, a city, and a visitor to it.

    python docs/images/draw_city.py docs/images/city.svg

Runs the demonstration until the pipeline has published what it finds, and a little longer.
"""

import asyncio
import re
import sys
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console

import nearcast as nc
from nearcast.cli.broker.up import run_until_stopped
from nearcast.cli.demo.city_view import CityView
from nearcast.cli.demo.up_demo import prepare

WIDTH, HEIGHT = 112, 36
LONGER_S = 30.0
AT = (53.3482, -6.2515)
# No fonts from elsewhere: what the reader has will do.
FORMAT = re.sub(r"@font-face \{\{.*?\}\}\s*", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)


class Photographer:
    """Visits the city, draws it once there is something to see, and ends it."""

    def __init__(self, view: CityView, stopped: asyncio.Event) -> None:
        self._view = view
        self._stopped = stopped

    async def run(self) -> None:
        """Write the picture."""
        scene, console = self._view.scene, Console(record=True, width=WIDTH, file=StringIO())
        async with nc.connect("mqtt://127.0.0.1:1883", node="you") as you:
            await you.move(*AT)
            while not {"encounters", "spots"} <= scene.counts.keys():
                await asyncio.sleep(1.0)
            await asyncio.sleep(LONGER_S)
            await you.publish("hazard/ice", {"says": "careful"}, to=nc.circle(AT, 300))
            await asyncio.sleep(2.0)
            console.print(self._view.screen(WIDTH, HEIGHT))
        svg = console.export_svg(title="make run", code_format=FORMAT)
        Path(sys.argv[1]).write_text(re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE))
        self._stopped.set()


if __name__ == "__main__":
    with prepare(None, {}, in_lines=False, with_pipeline=True, screen=Photographer) as demo:
        run_until_stopped(demo.settings, demo.pipeline, demo)
