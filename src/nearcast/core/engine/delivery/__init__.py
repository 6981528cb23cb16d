"""Who gets which events: the columns, the routes of subjects, and what is live."""
