"""What every claim is made of: its model, the collector of its evidence, judging, derivations."""
