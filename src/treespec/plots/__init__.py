"""Pictures: functions from plain arrays to matplotlib axes. matplotlib is imported when one is called."""
