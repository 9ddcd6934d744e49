"""Files for Prometheus, Alertmanager and Grafana, made from an inventory."""
