"""What has happened: events and snapshots of a day, on disk, and what they tell of an incident."""
