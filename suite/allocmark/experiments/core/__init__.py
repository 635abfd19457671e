"""What every experiment is made of: requests, processes, the recorder of figures."""
