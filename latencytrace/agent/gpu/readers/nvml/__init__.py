"""NVIDIA's GPUs, through NVML and its GPM."""
