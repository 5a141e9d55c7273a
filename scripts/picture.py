#!/usr/bin/env python3
"""Makes docs/picture.png: a session in a mount as it was printed, and the map that it draws.

    picture.py [OUT.png]

The commands below are run in a directory of their own; the picture shows what they printed.
scripts/picture.sh installs what this needs (gnuplot, Pillow, DejaVu fonts) and runs it.
"""
import pathlib
import subprocess
import sys
import tempfile

from PIL import Image, ImageDraw, ImageFont

from sessions import PYTHON, ROOT, remove, run

FONTS = pathlib.Path("/usr/share/fonts/truetype/dejavu")
MARGIN, BAR, LINE, SIZE = 28, 44, 25, 18  # pixels
TERMINAL, MAP, HEIGHT = 712, 1000, 700
DARK, TITLE, TEXT, COMMAND, PROMPT = "#161b22", "#21262d", "#b6bec8", "#f0f6fc", "#56d364"

# What the plot looks like; what it plots is in map.gp, which the session shows.
STYLE = f"""
set terminal pngcairo size {MAP},{HEIGHT} font "DejaVu Sans,15" background "#ffffff"
set output "map.png"
set title "Surface temperature in July, K" font "DejaVu Sans,19" offset 0,-0.3
set xrange [-180:180]; set yrange [-90:90]
set xtics -180,60,180 format "%.0f°"; set ytics -90,30,90 format "%.0f°"
set tics out nomirror scale 0.6; set border linewidth 1.2 linecolor "#444444"
set cbrange [240:312]; set cbtics 240,10,310; unset cblabel
set colorbox user origin 0.895,0.14 size 0.022,0.73
set lmargin screen 0.085; set rmargin screen 0.87; set tmargin screen 0.87; set bmargin screen 0.14
set palette defined (0 "#2c1e5c", 0.18 "#31509e", 0.36 "#3f97c4", 0.5 "#9fd4d4", 0.6 "#e9efc8", \\
    0.72 "#f7cf7a", 0.85 "#ea7a42", 1 "#8f1330")
set style arrow 1 nohead linecolor "#1c1c1c" linewidth 1.1
unset key
"""
PLOT = """\
plot "mnt/tas.nc/tas" binary array=(720,360) \\
  format="%float" skip=6*720*360*4 dx=0.5 dy=0.5 \\
  origin=(-179.75,-89.75) with image, \\
  "mnt/tas.nc/coast" binary format="%4float" \\
  using 1:2:3:4 with vectors arrowstyle 1
"""
SESSION = [
    "ls data",
    "arrayfs mount data mnt",
    "ls mnt/tas.nc",
    "getfattr -d -m 'shape|dtype|codec' mnt/tas.nc/tas",
    "du -h --apparent-size mnt/tas.nc/tas",
    "du -h mnt/tas.nc/tas",
    "od -A n -t f4 -j 5000000 -N 12 mnt/tas.nc/tas",
    "cat map.gp",
    "gnuplot style.gp map.gp",
]


def printed(directory):
    """The session's lines: whether it is a command, and its text."""
    lines = []
    for command in SESSION:
        result = run(command, directory)
        if result.returncode != 0:
            sys.exit(f"{command}: {result.stdout}")
        found = result.stdout.rstrip("\n").expandtabs().splitlines()
        lines += [(True, command), *((False, line) for line in in_columns(command, found))]
    return lines


def in_columns(command, lines):
    """As `ls` prints names on a terminal."""
    return ["  ".join(lines)] if command.startswith("ls ") else lines


def terminal(lines):
    image = Image.new("RGB", (TERMINAL, HEIGHT), DARK)
    draw = ImageDraw.Draw(image)
    draw.rectangle((0, 0, TERMINAL, BAR), TITLE)
    for number, colour in enumerate(["#ff5f57", "#febc2e", "#28c840"]):
        draw.ellipse((20 + 26 * number, 15, 34 + 26 * number, 29), colour)
    kinds = ("", "-Bold")
    plain, bold = (ImageFont.truetype(FONTS / f"DejaVuSansMono{kind}.ttf", SIZE) for kind in kinds)
    y = BAR + 18
    for command, text in lines:
        if command:
            draw.text((MARGIN, y), "$", PROMPT, bold)
            draw.text((MARGIN + 2 * draw.textlength(" ", bold), y), text, COMMAND, bold)
        else:
            draw.text((MARGIN, y), text, TEXT, plain)
        if MARGIN + draw.textlength("$ " * command + text, plain) > TERMINAL - 8:
            sys.exit(f"too long for the picture: {text}")
        y += LINE
    if y > HEIGHT:
        sys.exit(f"{y - HEIGHT} pixels too many lines")
    return image


def rounded(image, radius=14):
    """With a border, for pages of its own colour, and round corners, at which the page shows."""
    box = (0, 0, image.width - 1, image.height - 1)
    ImageDraw.Draw(image).rounded_rectangle(box, radius, outline="#8b949e", width=2)
    outside = Image.new("L", image.size, 255)
    ImageDraw.Draw(outside).rounded_rectangle(box, radius, 0)
    # 255 colours are a quarter of the bytes of all of them; the 256th is the page.
    few = image.quantize(255, Image.Quantize.MAXCOVERAGE, kmeans=1, dither=Image.Dither.NONE)
    few.paste(255, mask=outside)
    return few


def main():
    out = sys.argv[1] if len(sys.argv) > 1 else ROOT / "docs/picture.png"
    directory = pathlib.Path(tempfile.mkdtemp(prefix="arrayfs-picture."))
    try:
        for name in ("data", "mnt"):
            (directory / name).mkdir()
        make = [PYTHON, ROOT / "scripts/picture_data.py", directory / "data/tas.nc"]
        subprocess.run(make, check=True)
        (directory / "style.gp").write_text(STYLE)
        (directory / "map.gp").write_text(PLOT)
        lines = printed(directory)
        picture = Image.new("RGB", (TERMINAL + MAP, HEIGHT))
        picture.paste(terminal(lines), (0, 0))
        picture.paste(Image.open(directory / "map.png").convert("RGB"), (TERMINAL, 0))
    finally:
        remove(directory)
    rounded(picture).save(out, optimize=True, transparency=255)
    print(f"{out}: {pathlib.Path(out).stat().st_size // 1000} kB")


if __name__ == "__main__":
    main()
