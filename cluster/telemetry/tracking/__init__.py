"""Hands numbers to TensorBoard, MLflow and Weights & Biases."""
