"""From text to pieces: learning a vocabulary and applying it."""
