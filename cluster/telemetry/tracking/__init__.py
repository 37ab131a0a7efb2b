"""Tracks runs with TensorBoard, MLflow and Weights & Biases."""
