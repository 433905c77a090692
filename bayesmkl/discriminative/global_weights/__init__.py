"""Methods that find one weight for each kernel."""
