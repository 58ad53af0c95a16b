"""Six policies for shared GPUs on one trace: the fragmentation experiment of USENIX ATC 2023.

`python -m examples.gpu_fragmentation --help` runs it; docs/gpu-fragmentation.md describes it.
"""
