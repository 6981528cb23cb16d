"""What operators see and ask: figures, logs, explanations, a control socket."""
