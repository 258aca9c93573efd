"""Regions for the eye: overlays, outlines as polygons, animations."""
