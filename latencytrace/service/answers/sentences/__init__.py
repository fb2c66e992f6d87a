"""What answers say in sentences, in the terminal and on pages alike."""
