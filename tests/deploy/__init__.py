"""What an operator is given: image, compose file, Kubernetes folder, systemd unit."""
