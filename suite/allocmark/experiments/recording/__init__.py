"""A recorded job replayed under one setting: the process behind a replay."""
