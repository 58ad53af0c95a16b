"""What the scheduler answers about itself: plain requests in, plain answers out."""
