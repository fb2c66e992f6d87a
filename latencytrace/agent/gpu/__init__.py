"""Reading the machine's GPUs: utilisation, bandwidth, and the processes on them."""
