"""The emulated driver: real allocators on a machine without a GPU.

Nothing that measures imports this package. It is a driver, reached through the loader.
"""
