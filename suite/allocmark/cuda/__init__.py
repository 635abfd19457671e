"""The bare CUDA runtime and driver, by ctypes: whichever libraries the framework itself uses."""
