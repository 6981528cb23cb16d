"""The broker benchmark: Nearcast and mosquitto under the same loads."""
