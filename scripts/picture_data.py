#!/usr/bin/env python3
"""Writes a NetCDF-4 file with surface temperatures of a planet that nobody knows.

    picture_data.py FILE

Twelve months on a grid of half a degree, in kelvin, with continents, mountains and seasons, and the
coastline as line segments. All of it follows from formulas and random numbers with a fixed seed.
"""
import sys

import netCDF4
import numpy as np
import scipy.ndimage

STEP = 0.5  # degrees
LAND = 0.31  # of the surface
SEED = 18


def noise(points, roughness, rng):
    """Sum of octaves of random values between -1 and 1, on the sphere, so without a seam."""
    total = 0
    for octave in range(8):
        frequency = 1.3 * 2**octave
        lattice = rng.uniform(-1, 1, [int(2 * frequency) + 6] * 3)
        values = scipy.ndimage.map_coordinates(lattice, (points + 1) * frequency + 2, order=3)
        total = total + roughness**octave * values
    return total


def sphere(latitude, longitude):
    ring = np.cos(latitude)
    x, y = ring * np.cos(longitude), ring * np.sin(longitude)
    return np.stack(np.broadcast_arrays(x, y, np.sin(latitude)))


def heights(points, latitude, rng):
    """Above the sea where positive; the share of land is the one that is wanted."""
    height = noise(points, 0.58, rng)
    area = np.broadcast_to(np.cos(latitude), height.shape)
    order = np.argsort(height, axis=None)
    below = np.cumsum(area.ravel()[order]) / area.sum()
    height = height - height.ravel()[order][np.searchsorted(below, 1 - LAND)]
    return height / height.max()


def temperatures(month, latitude, height, weather):
    """Kelvin. Land is hotter in summer and colder in winter than the sea; mountains are cold."""
    season = np.cos(2 * np.pi * (month - 6.3) / 12)
    tilt = np.sin(latitude - np.radians(6) * season) ** 2
    sea = np.maximum(301.5 - 33 * tilt**0.85 + 1.2 * weather, 271.3 + 0.2 * weather)
    inland = np.clip(height * 6, 0, 1)
    swing = 15 * season * np.sin(latitude) * inland
    dry = 7 * np.exp(-((np.abs(np.degrees(latitude)) - 24) / 11) ** 2) * inland
    land = 301 - 36 * np.sin(latitude - np.radians(5) * season) ** 2 + swing + dry
    land = land - 22 * np.clip(height, 0, 1) + 1.5 * weather
    return np.where(height > 0, land, sea)


def crossings(height, latitude, longitude):
    """The coast, where height is zero: a segment (x, y, dx, dy) for each cell that it crosses."""
    corners = [height[:-1, :-1], height[:-1, 1:], height[1:, 1:], height[1:, :-1]]
    x, y = longitude[:-1][None], latitude[:-1][:, None]
    places = [(0, 0), (1, 0), (1, 1), (0, 1)]
    edges = []
    for side in range(4):
        a, b = corners[side], corners[(side + 1) % 4]
        crossed = (a > 0) != (b > 0)
        share = np.where(crossed, a / np.where(crossed, a - b, 1), 0)
        (x0, y0), (x1, y1) = places[side], places[(side + 1) % 4]
        along_x, along_y = x0 + share * (x1 - x0), y0 + share * (y1 - y0)
        edges.append((crossed, x + STEP * along_x, y + STEP * along_y))
    segments = []
    for first in range(4):
        for second in range(first + 1, 4):
            both = edges[first][0] & edges[second][0] & (sum(edge[0] for edge in edges) == 2)
            start, end = (np.stack([x[both], y[both]]) for _, x, y in (edges[first], edges[second]))
            segments.append(np.concatenate([start, end - start]).T)
    return np.concatenate(segments)


def main():
    rng = np.random.default_rng(SEED)
    latitude = np.arange(-90 + STEP / 2, 90, STEP)
    longitude = np.arange(-180 + STEP / 2, 180, STEP)
    north = np.radians(latitude)[:, None]
    points = sphere(north, np.radians(longitude)[None])
    height = heights(points, north, rng)
    weather = noise(points, 0.6, rng)
    coast = crossings(height, latitude, longitude)
    with netCDF4.Dataset(sys.argv[1], "w") as file:
        file.title = "Surface temperature of a planet made by formulas"
        sizes = {"month": 12, "lat": latitude.size, "lon": longitude.size,
                 "segment": len(coast), "xydxdy": 4}
        for name, size in sizes.items():
            file.createDimension(name, size)
        for name, values, towards in [("lat", latitude, "north"), ("lon", longitude, "east")]:
            variable = file.createVariable(name, "f4", (name,))
            variable.units, variable[:] = f"degrees_{towards}", values
        file.createVariable("coast", "f4", ("segment", "xydxdy"), zlib=True)[:] = coast
        chunks = (1, latitude.size, longitude.size)
        dimensions = ("month", "lat", "lon")
        variable = file.createVariable("tas", "f4", dimensions, zlib=True, shuffle=True,
                                       chunksizes=chunks, least_significant_digit=1)
        variable.units, variable.long_name = "K", "surface temperature"
        for month in range(12):
            variable[month] = temperatures(month, north, height, weather)


if __name__ == "__main__":
    main()
