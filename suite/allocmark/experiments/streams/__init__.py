"""What streams, private pools and threads cost."""
