"""What is measured on: stack, conditions, NVML, frameworks, and where results belong."""
