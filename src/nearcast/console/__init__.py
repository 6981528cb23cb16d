"""The console: what a broker tells over HTTP."""
