"""What several tests share: builders of records and snapshots, fakes, children to measure."""
