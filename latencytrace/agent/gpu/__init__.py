"""Reading the machine's GPUs: utilisation, bandwidth, and whose they are."""
