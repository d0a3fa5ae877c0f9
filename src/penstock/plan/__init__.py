"""Plans and what is decided, asked and recorded about them, as frozen values."""
