"""Operations: metrics, logs, explanations, and the control socket."""
