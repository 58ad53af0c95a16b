"""What more than one plugin needs: matching, scoring arithmetic, hint plumbing."""
