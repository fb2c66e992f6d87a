"""One file per vendor of GPUs; each implements `latencytrace.agent.gpu_reader.GpuReader`."""
