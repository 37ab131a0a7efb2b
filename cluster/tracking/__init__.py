"""Where the numbers of runs go besides the study's own files: TensorBoard, MLflow, Weights & Biases."""
