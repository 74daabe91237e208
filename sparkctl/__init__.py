"""sparkctl: the command-line kernel development toolkit for CUDA."""

__version__ = "0.1.0"
