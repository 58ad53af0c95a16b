"""The cluster that is explained: where its objects come from, and how they are held in memory."""
